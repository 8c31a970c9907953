package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/client"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/traffic"
	"github.com/weirgpu/weir/tensor"
)

// flat says how much more memory there may be at the end than after the first quarter, and slack
// what is no growth in any case.
const (
	flat  = 1.1
	slack = 16 << 20
)

// memory is what the process had in memory, in MiB, at times that are as far from each other.
type memory struct {
	Resident []float64 `json:"resident_mib"`
	Heap     []float64 `json:"heap_mib"` // that is in use
}

// add looks once, after what is garbage is gone.
func (m *memory) add() {
	runtime.GC()
	m.Resident = append(m.Resident, float64(residentOf("self"))/(1<<20))
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	m.Heap = append(m.Heap, float64(s.HeapInuse)/(1<<20))
}

// flat reports whether the most of the last quarter is not above that of those before, beginning
// with the second.
func (m *memory) flat() bool {
	n := len(m.Resident) / 4
	if n == 0 {
		return false
	}
	return most(m.Resident[3*n:]) <= max(most(m.Resident[n:3*n])*flat,
		most(m.Resident[n:3*n])+float64(slack)/(1<<20))
}

func most(list []float64) (m float64) {
	for _, v := range list {
		m = max(m, v)
	}
	return m
}

// residentOf is how many bytes of a process are in memory, 0 where that is not known.
func residentOf(process string) int64 {
	b, err := os.ReadFile("/proc/" + process + "/status")
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(b), "VmRSS:")
	fields := strings.Fields(after)
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.ParseInt(fields[0], 10, 64)
	return kib << 10
}

// overloadResult is what too much to do costs.
type overloadResult struct {
	Bears  float64         `json:"bears_per_s"` // what the server answers at most
	Rate   float64         `json:"rate_per_s"`
	Result *traffic.Result `json:"result"`
	Memory memory          `json:"memory"`
}

func (r *overloadResult) ok() bool {
	bad := r.Result.Errors["other"] + r.Result.Errors["cut off"]
	return r.Memory.flat() && r.Result.Answered > 0 && bad == 0
}

// kindOf is the kind of an error, and whether it is that of a server with too much to do.
func kindOf(err error) (string, bool) { return client.Kind(err), client.Refused(err) }

// within is the deadline of requests of an overload.
const within = 100 * time.Millisecond

// looks is how often memory is looked at.
const looks = 40

// overload sends twice as many requests as the server can bear.
func overload(during time.Duration, over string) (*overloadResult, error) {
	x, err := open(nil, over, server.Source{Name: "heavy", Version: 1,
		Open: heavy})
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	plan := traffic.Plan{Clients: 1, Duration: 2 * time.Second, Timeout: time.Second}
	can, err := traffic.Run(ctx, plan, x.send, kindOf)
	if err != nil {
		return nil, err
	}
	r := &overloadResult{Bears: can.PerSecond, Rate: 2 * can.PerSecond}
	plan = traffic.Plan{Rate: r.Rate, Clients: 1000, Duration: during, Timeout: within,
		Deadline: within}
	var beside sync.WaitGroup
	ended := make(chan struct{})
	beside.Go(func() {
		tick := time.NewTicker(during / looks)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.Memory.add()
			case <-ended:
				return
			}
		}
	})
	r.Result, err = traffic.Run(ctx, plan, x.send, kindOf)
	close(ended)
	beside.Wait()
	return r, errors.Join(err, x.close(), x.server.Close())
}

// weekResult is what many requests leave behind.
type weekResult struct {
	Requests int64   `json:"requests"`
	Failed   int64   `json:"failed"`       // otherwise than they must
	Gone     int64   `json:"gone"`         // whose client went
	Answered int64   `json:"answered_yet"` // though it went: others shared their batch
	Wrong    int64   `json:"wrong"`        // that are no request
	Seconds  float64 `json:"seconds"`
	Memory   memory  `json:"memory"`
	First    string  `json:"first_failure,omitempty"`
}

func (r *weekResult) ok() bool { return r.Failed == 0 && r.Memory.flat() }

// week asks so many times, and looks at the memory meanwhile.
func week(n, clients int) (*weekResult, error) {
	x, err := open(nil, "http", source(1))
	if err != nil {
		return nil, err
	}
	r := &weekResult{}
	var asked, failed, gone, answered, wrong atomic.Int64
	var first sync.Once
	began := time.Now()
	for range looks {
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				for range n / looks / clients {
					k := asked.Add(1)
					err := x.one(k)
					switch {
					case k%100 == 1 && oip.KindOf(err) == oip.Cancelled:
						gone.Add(1)
					case k%100 == 1 && err == nil:
						answered.Add(1)
					case k%100 == 2 && oip.KindOf(err) == oip.Invalid:
						wrong.Add(1)
					case err != nil || k%100 == 2:
						failed.Add(1)
						first.Do(func() { r.First = fmt.Sprint(k%100, ": ", err) })
					}
				}
			})
		}
		all.Wait()
		r.Memory.add()
	}
	r.Seconds = time.Since(began).Seconds()
	r.Requests, r.Failed, r.Wrong = asked.Load(), failed.Load(), wrong.Load()
	r.Gone, r.Answered = gone.Load(), answered.Load()
	return r, errors.Join(x.close(), x.server.Close())
}

// one asks once; of a hundred, the client of one is gone and another one is wrong.
func (x *site) one(k int64) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	name := "image"
	switch k % 100 {
	case 1:
		cancel()
	case 2:
		name = "picture"
	}
	a, err := x.server.Infer(ctx, "digits", "", &oip.Request{Inputs: []oip.Input{{Name: name,
		Tensor: tensor.From(make([]float32, 64), 1, 1, 8, 8)}}})
	if err != nil {
		return err
	}
	a.Close()
	return nil
}
