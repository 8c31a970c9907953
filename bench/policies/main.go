// Command policies measures what deciding costs, live and in simulation:
//
//	go run ./bench/policies            # under a minute
//	go run ./bench/policies -json > bench/results/DATE-policies.json
//
// A decision is timed where a job gives the device back while all others wait: one event told to
// the core, one call of the policy, one grant. A simulation is timed by the events told to its
// core. The exit code is 1 when a bound is missed, of which there are some for fair and priority,
// the policies of the broker and the agent; the others are shown beside them.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/internal/claims"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/roofline"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/share/policy"
	"github.com/weirgpu/weir/share/sim"
)

type results struct {
	Date      string             `json:"date"`
	Machine   string             `json:"machine"`
	Processor roofline.Processor `json:"processor"`
	Cores     int                `json:"cores"`
	Go        string             `json:"go"`
	// Foreign is the processor time, in cores, that others took meanwhile.
	Foreign float64     `json:"foreign_cores"`
	Claims  claims.Book `json:"claims"`
	// Others are measured in the same way, and nothing is promised of them.
	Others claims.Book `json:"others"`
}

// bounds are those of a decision with so many jobs, in microseconds, and of simulated events a
// second, in millions, with eight.
var bounds = []struct {
	jobs     int
	decision float64
}{{8, 2}, {1000, 100}}

const leastEvents = 1

// command is how messages begin.
const command claims.Command = "policies"

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object")
	rounds := flag.Int("rounds", 5, "how often each figure is taken; medians are quoted")
	flag.Parse()
	r := &results{
		Date:      time.Now().UTC().Format("2006-01-02"),
		Machine:   cpuinfo.ModelName(),
		Processor: roofline.Identify(),
		Cores:     cpu.Cores(),
		Go:        runtime.Version(),
	}
	others := claims.Start()
	for range max(1, *rounds) {
		for _, row := range policy.All() {
			command.Check(r.measure(row))
		}
	}
	r.Others.Judge(os.Stderr)
	held := r.Claims.Judge(os.Stderr)
	r.Foreign = others.Foreign()
	fmt.Fprintf(os.Stderr, "others took %.2f of %d cores meanwhile\n", r.Foreign, r.Cores)
	command.Finish(r, *asJSON, held)
}

// measure takes one round of a policy's figures.
func (r *results) measure(row policy.Row) error {
	book := &r.Others
	if row.Name == "fair" || row.Name == "priority" {
		book = &r.Claims
	}
	for _, b := range bounds {
		us, err := decision(row, b.jobs)
		if err != nil {
			return err
		}
		book.Check(fmt.Sprintf("%s: a decision with %d jobs, us", row.Name, b.jobs), us, b.decision,
			true)
	}
	millions, err := simulation(row)
	if err != nil {
		return err
	}
	book.Check(row.Name+": events of a simulation of 8 jobs, millions a second", millions,
		leastEvents, false)
	return nil
}

// decision returns how long one takes, in microseconds, with so many jobs of which one holds the
// device and gives it back, and all others wait.
func decision(row policy.Row, jobs int) (float64, error) {
	c, err := core.Config{Device: "bench:0", Units: 64, Memory: share.GiB, Can: row.Needs}.
		ForPolicy(row.Name)
	if err != nil {
		return 0, err
	}
	k, err := core.New(c)
	if err != nil {
		return 0, err
	}
	var now time.Duration
	var holder share.JobID
	step := func(e core.Event) error {
		e.At = now
		notices, err := k.Step(e)
		for i := range notices {
			if notices[i].Kind == core.Granted {
				holder = notices[i].Job
			}
		}
		return err
	}
	for i := range jobs {
		s := share.Share{Class: share.Class(i % 3)}
		if row.Honours.Guarantee && !row.Needs.Partition {
			s.Compute = 1 / float64(jobs)
		}
		err := step(core.Event{Kind: core.Admit, Spec: &share.Job{Name: fmt.Sprint(i), Share: s}})
		if err != nil {
			break // the policy has room for no more
		}
		if err := step(core.Event{Kind: core.Want, Job: share.JobID(i + 1)}); err != nil {
			return 0, err
		}
	}
	n := 0
	start := time.Now()
	for ; time.Since(start) < 100*time.Millisecond; n++ {
		e := core.Event{Kind: core.Return, Job: holder}
		now += 2 * time.Millisecond
		if !k.Holds(holder) { // the policy lets all wait for a while
			e.Kind, now = core.Tick, max(now, k.Wake())
		}
		if err := step(e); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(start).Microseconds()) / float64(n), nil
}

// simulation returns how many events a second, in millions, are told to the core of a simulation of
// eight jobs that always have work.
func simulation(row policy.Row) (float64, error) {
	sc := sim.Scenario{Duration: 3 * time.Second, Device: sim.Device{Units: 8, Can: row.Needs}}
	for i := range 8 {
		j := sim.Job{Job: share.Job{Name: fmt.Sprint(i)}, Arrival: sim.Arrival{Closed: 1},
			Iteration: sim.Spread{Mean: time.Millisecond, Jitter: 0.5},
			Step:      100 * time.Microsecond}
		if j.Compute = 0.125; row.Needs.Partition {
			j.Compute = 0
		}
		sc.Jobs = append(sc.Jobs, j)
	}
	start := time.Now()
	res, err := sim.Run(sc, row.Name, sim.Options{})
	if err != nil {
		return 0, err
	}
	return float64(res.Events) / 1e6 / time.Since(start).Seconds(), nil
}
