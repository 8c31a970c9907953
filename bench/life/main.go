// Command life measures what changes of a server's models, and its stops, cost requests that are
// under way: over HTTP, with the client in the same process.
//
//	go run ./bench/life swaps [-for 60s]     a swap each 100 ms against none, in turn
//	go run ./bench/life stops [-n 1000]      servers that stop under load
//
// It prints one JSON object, and ends with 1 where a request was lost or, of swaps, the 99th
// percentile is more than 1.2 times as long.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/client"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

func main() {
	f := flag.NewFlagSet("life", flag.ExitOnError)
	during := f.Duration("for", time.Minute, "how long each way is measured")
	count := f.Int("n", 1000, "how many stops")
	clients := f.Int("clients", 2, "requests under way at a time")
	if len(os.Args) < 2 {
		fatal(errors.New("give swaps or stops"))
	}
	_ = f.Parse(os.Args[2:])
	var result interface{ ok() bool }
	var err error
	switch os.Args[1] {
	case "swaps":
		result, err = swaps(*during, *clients)
	case "stops":
		result, err = stops(*count, *clients)
	default:
		err = fmt.Errorf("%s: give swaps or stops", os.Args[1])
	}
	if err != nil {
		fatal(err)
	}
	text, _ := json.MarshalIndent(result, "", "  ")
	fmt.Println(string(text))
	if !result.ok() {
		os.Exit(1)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "life:", err)
	os.Exit(2)
}

// site is a server that answers over HTTP, and a request for it.
type site struct {
	server  *server.Server
	http    *http.Server
	client  *client.Client
	request *client.Prepared
}

// source is a version of the digits.
func source(version int64) server.Source {
	return server.Source{Name: "digits", Version: version, Open: func() (*weir.Model, error) {
		return weir.Load(digits.Model)
	}}
}

// shelf is a catalogue with the version that is to be served next.
type shelf struct{ next int64 }

func (c *shelf) Models() ([]server.Offer, error) { return nil, nil }

func (c *shelf) Model(name string) (server.Offer, error) {
	return server.Offer{Name: name, Sources: []server.Source{source(c.next)}}, nil
}

// open begins a server with version 1 of the digits.
func open(from server.Catalogue) (*site, error) {
	s, err := server.New(server.Options{Catalogue: from, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	if err := s.LoadAll(context.Background(), []server.Source{source(1)}); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	x := &site{server: s, http: &http.Server{Handler: s}}
	go func() { _ = x.http.Serve(on) }()
	x.client = &client.Client{URL: "http://" + on.Addr().String(),
		HTTP: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	x.request, err = client.Prepare("digits", "", &oip.Request{Inputs: []oip.Input{{Name: "image",
		Tensor: tensor.From(make([]float32, 64), 1, 1, 8, 8)}}})
	return x, err
}

// close stops the server as weir up does.
func (x *site) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	x.server.Retire()
	return errors.Join(x.server.Drain(ctx), x.http.Shutdown(ctx))
}

// load is what clients that ask one request after another came to.
type load struct {
	mu     sync.Mutex
	took   []time.Duration
	errors map[string]int
	stop   chan struct{}
	done   sync.WaitGroup
}

func (x *site) load(clients int) *load {
	l := &load{errors: map[string]int{}, stop: make(chan struct{})}
	for range clients {
		l.done.Go(func() {
			for {
				select {
				case <-l.stop:
					return
				default:
				}
				began := time.Now()
				err := x.client.Send(context.Background(), x.request)
				l.count(time.Since(began), err)
			}
		})
	}
	return l
}

func (l *load) count(took time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.errors[client.Kind(err)]++
		return
	}
	l.took = append(l.took, took)
}

func (l *load) end() {
	close(l.stop)
	l.done.Wait()
}

// swapResult is what swaps cost.
type swapResult struct {
	Swaps    int            `json:"swaps"`
	Requests [2]int         `json:"requests"` // without swaps, and with
	P50      [2]float64     `json:"p50_ms"`
	P99      [2]float64     `json:"p99_ms"`
	Ratio    float64        `json:"p99_ratio"`
	Errors   map[string]int `json:"errors"`
}

func (r *swapResult) ok() bool { return len(r.Errors) == 0 && r.Ratio <= 1.2 }

// every is the time between two swaps, and turn that of measuring one way.
const (
	every = 100 * time.Millisecond
	turn  = 5 * time.Second
)

// swaps measures requests without and with swaps, in turn.
func swaps(during time.Duration, clients int) (*swapResult, error) {
	from := &shelf{next: 2}
	x, err := open(from)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	if err := x.server.LoadModel(ctx, "digits", nil); err != nil {
		return nil, err
	}
	r := &swapResult{Errors: map[string]int{}}
	var took [2][]time.Duration
	for passed := time.Duration(0); passed < 2*during; passed += turn {
		way := int(passed/turn) % 2
		l := x.load(clients)
		err := x.hold(ctx, way == 1, r)
		l.end()
		if err != nil {
			return nil, err
		}
		took[way] = append(took[way], l.took...)
		for kind, n := range l.errors {
			r.Errors[kind] += n
		}
	}
	for way := range took {
		slices.Sort(took[way])
		n := len(took[way])
		r.Requests[way] = n
		r.P50[way] = took[way][n/2].Seconds() * 1000
		r.P99[way] = took[way][n*99/100].Seconds() * 1000
	}
	r.Ratio = r.P99[1] / r.P99[0]
	return r, errors.Join(x.close(), x.server.Close())
}

// hold waits for a turn, and swaps meanwhile if asked to.
func (x *site) hold(ctx context.Context, swap bool, r *swapResult) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for end := time.Now().Add(turn); time.Now().Before(end); {
		<-tick.C
		if !swap {
			continue
		}
		if err := x.server.Rollback(ctx, "digits"); err != nil {
			return err
		}
		r.Swaps++
	}
	return nil
}

// stopResult is what stops cost.
type stopResult struct {
	Stops    int            `json:"stops"`
	Answered uint64         `json:"answered"`          // by the servers
	Received int            `json:"received"`          // by the clients
	Lost     int64          `json:"lost"`              // answered and not received
	Late     int            `json:"late"`              // stops with requests that were not answered
	Refused  map[string]int `json:"refused,omitempty"` // requests that came too late, by kind
}

func (r *stopResult) ok() bool { return r.Lost == 0 && r.Late == 0 }

// stops begins servers and stops each under load.
func stops(n, clients int) (*stopResult, error) {
	r := &stopResult{Refused: map[string]int{}}
	for range n {
		x, err := open(nil)
		if err != nil {
			return nil, err
		}
		l := x.load(clients)
		time.Sleep(20*time.Millisecond + rand.N(20*time.Millisecond))
		if x.close() != nil {
			r.Late++
		}
		l.end()
		x.client.HTTP.CloseIdleConnections()
		all, failed := x.server.Recorder().Answered("digits")
		r.Stops, r.Answered, r.Received = r.Stops+1, r.Answered+all-failed, r.Received+len(l.took)
		r.Lost += int64(all-failed) - int64(len(l.took))
		for kind, n := range l.errors {
			r.Refused[kind] += n
		}
		if err := x.server.Close(); err != nil {
			return nil, err
		}
	}
	return r, nil
}
