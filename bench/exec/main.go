// Command exec measures what weir exec promises and checks it against the bounds that it promises,
// on the simulated driver:
//
//	go run ./bench/exec               # about five minutes; -only cost, memory, shares, limit,
//	                                  # latency or attach for one of them
//	go run ./bench/exec -json > bench/results/DATE-exec-fake.json
//
// It drives the command weir, its library and its agent, built from this source, with programs that
// know nothing of weir. The device is simulated, and its own record of who ran when and who held
// what decides: the figures are about weir and this machine's processors, and say nothing about a
// GPU. The exit code is 1 when a bound is missed. Other load on the machine moves the figures: the
// result says how much processor time others took meanwhile. -slow and -load make the machine slow
// on purpose; two bounds are others then, and say why (work in cost.go, inUse in shares.go).
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/weirgpu/weir/internal/claims"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/roofline"
)

type results struct {
	Date      string             `json:"date"`
	Device    string             `json:"device"`
	Machine   string             `json:"machine"`
	Processor roofline.Processor `json:"processor"`
	Cores     int                `json:"cores"`
	Go        string             `json:"go"`
	// Foreign is the processor time, in cores, that others took meanwhile.
	Foreign float64     `json:"foreign_cores"`
	Claims  claims.Book `json:"claims"`
	// Notes are figures that no bound is about.
	Notes map[string][]float64 `json:"notes"`
	quick bool
	// slowed: the machine is made slow on purpose.
	slowed bool
}

// note keeps a figure that no bound is about.
func (r *results) note(name string, value float64) {
	r.Notes[name] = append(r.Notes[name], value)
	fmt.Fprintf(os.Stderr, "        %s: %.3f\n", name, value)
}

// groups are the claims, each with what the simulated device is set up as.
var groups = []struct {
	name     string
	once     bool // rounds tell nothing more
	settings []string
	run      func(*results, *host, int) error
}{
	{"cost", false, nil, cost},
	{"memory", true, []string{"WEIR_FAKE_CONTEXT=16MiB"}, memory},
	{"shares", false, []string{"WEIR_FAKE_CONTEXT=16MiB"}, shares},
	{"limit", false, nil, limit},
	{"latency", false, nil, latency},
	{"attach", false, []string{"WEIR_FAKE_CONTEXT=16MiB", "WEIR_FAKE_MEMORY=64GiB"}, attach},
}

// command is how messages begin.
const command claims.Command = "exec"

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object")
	only := flag.String("only", "", "one group: cost, memory, shares, limit, latency or attach")
	rounds := flag.Int("rounds", 3, "how often each claim is measured; medians are quoted")
	quick := flag.Bool("quick", false,
		"a hundredth of the memory operations and kills, and shorter phases")
	loaded := flag.Int("load", 0, "threads that compute beside it all the time, as a build does")
	half := flag.Bool("slow", false, "leave programs half of each processor's time (takes root)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := &results{
		Date:      time.Now().UTC().Format("2006-01-02"),
		Device:    "weir fake GPU: simulated",
		Machine:   cpuinfo.ModelName(),
		Processor: roofline.Identify(),
		Cores:     runtime.NumCPU(),
		Go:        runtime.Version(),
		Notes:     map[string][]float64{},
		quick:     *quick,
		slowed:    *half || *loaded > 0,
	}
	if load(*loaded); *half {
		speed, err := slow()
		command.Check(err)
		r.note("what a thread computes, of what it does otherwise", speed)
	}
	if *loaded > 0 {
		r.note("threads that compute beside it", float64(*loaded))
	}
	others := claims.Start()
	for _, g := range groups {
		if *only != "" && *only != g.name {
			continue
		}
		n := max(1, *rounds)
		if g.once {
			n = 1
		}
		for round := range n {
			fmt.Fprintf(os.Stderr, "%s, round %d (fake GPU)\n", g.name, round+1)
			command.Check(measure(ctx, r, round, g.settings, g.run))
		}
	}
	held := r.Claims.Judge(os.Stderr)
	r.Foreign = others.Foreign()
	fmt.Fprintf(os.Stderr,
		"others took %.2f of %d cores meanwhile; all of this is of the fake GPU\n", r.Foreign,
		r.Cores)
	command.Finish(r, *asJSON, held)
}

// measure makes one round of a group with a device and an agent of its own.
func measure(ctx context.Context, r *results, round int, settings []string,
	run func(*results, *host, int) error) error {
	h, err := newHost(ctx, settings...)
	if err != nil {
		return err
	}
	defer h.close()
	return run(r, h, round)
}
