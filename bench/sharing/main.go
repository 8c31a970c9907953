// Command sharing measures what weir promises of a shared device and checks it against the bounds
// that it promises:
//
//	go run ./bench/sharing            # about fifteen minutes
//	go run ./bench/sharing -json > bench/results/DATE-sharing.json
//
// Each claim is one scenario of the package scenario on this machine's CPU. The exit code is 1 when
// a bound is missed. Other load on the machine moves the figures: the result says how much
// processor time others took meanwhile.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/claims"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/roofline"
	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/zoo"
)

// throughputRounds is how often, in a round, jobs run a second each alone and together.
const throughputRounds = 5

type results struct {
	Date      string             `json:"date"`
	Machine   string             `json:"machine"`
	Processor roofline.Processor `json:"processor"`
	Cores     int                `json:"cores"`
	Go        string             `json:"go"`
	// Foreign is the processor time, in cores, that others took meanwhile.
	Foreign float64          `json:"foreign_cores"`
	Claims  claims.Book      `json:"claims"`
	Phases  []scenario.Phase `json:"phases"`
}

// command is how messages begin.
const command claims.Command = "sharing"

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object")
	duration := flag.Duration("duration", 6*time.Second, "length of each phase")
	child := flag.Bool("child", false,
		"run one job told by standard input (used by the comparison with processes)")
	only := flag.String("only", "",
		"run one group: fair, many, limit, guarantee, priority, together, predict, fault, or "+
			"long, which takes eight minutes a round and only runs when named")
	rounds := flag.Int("rounds", 3,
		"how often each claim is measured, alone and together in turn; medians are quoted")
	flag.Parse()
	cpu.ReserveProcs(2)
	if *child {
		command.Check(scenario.RunChild(context.Background(), os.Stdin, os.Stdout, nil))
		return
	}
	r := &results{
		Date:      time.Now().UTC().Format("2006-01-02"),
		Machine:   cpuinfo.ModelName(),
		Processor: roofline.Identify(),
		Cores:     cpu.Cores(),
		Go:        runtime.Version(),
	}
	others := claims.Start()
	command.Check(r.measure(*only, *rounds, *duration))
	held := r.Claims.Judge(os.Stderr)
	r.Foreign = others.Foreign()
	fmt.Fprintf(os.Stderr, "others took %.2f of %d cores meanwhile\n", r.Foreign, r.Cores)
	command.Finish(r, *asJSON, held)
}

// measure runs one group, or all for "", in as many rounds as given.
func (r *results) measure(only string, rounds int, d time.Duration) error {
	for _, g := range []struct {
		name string
		run  func(*results, time.Duration) error
	}{{"fair", fair}, {"many", many}, {"limit", limit}, {"guarantee", guarantee},
		{"priority", priority}, {"together", together}, {"predict", predict},
		{"fault", fault}, {"long", guaranteeLong}} {
		if only != g.name && (only != "" || g.name == "long") {
			continue
		}
		for round := range max(1, rounds) {
			fmt.Fprintf(os.Stderr, "%s, round %d\n", g.name, round+1)
			if err := g.run(r, d); err != nil {
				return err
			}
		}
	}
	return nil
}

func job(name, arch string, s share.Share, a scenario.Arrival) (scenario.Job, error) {
	g, err := zoo.New(arch, zoo.Options{Seed: 1})
	return scenario.Job{
		Job:     share.Job{Name: name, Share: s},
		Model:   arch,
		Graph:   g,
		Arrival: a,
	}, err
}

func (r *results) run(s *scenario.Scenario, o scenario.Options) (*scenario.Result, error) {
	o.Progress = func(stage string) { fmt.Fprintln(os.Stderr, "   ", stage) }
	res, err := scenario.Run(context.Background(), s, o)
	if err == nil {
		r.Phases = append(r.Phases, res.Phases...)
	}
	return res, err
}

// fair: two saturating jobs at 50/50 and 30/70, first for as long as a share takes to tell, then
// again and again for a second alone and together in turn. What else the machine's memory and
// caches are used for changes within seconds, and by more than what is measured: only neighbouring
// seconds can be compared.
func fair(r *results, d time.Duration) error {
	for _, first := range []float64{0.5, 0.3} {
		a, err := job("a", "mobilenetv2", share.Share{Compute: first}, scenario.Arrival{Closed: 1})
		if err != nil {
			return err
		}
		b, err := job("b", "resnet50", share.Share{Compute: 1 - first}, scenario.Arrival{Closed: 1})
		if err != nil {
			return err
		}
		name := fmt.Sprintf("fair %.0f/%.0f", 100*first, 100-100*first)
		s := &scenario.Scenario{Policy: "fair", Duration: d, Seed: 1, Jobs: []scenario.Job{a, b}}
		res, err := r.run(s, scenario.Options{})
		if err != nil {
			return err
		}
		for _, j := range res.Jobs {
			r.Claims.Check(fmt.Sprintf("%s: share_error_p95 of %s, points", name, j.Name),
				j.ShareErrorP95, 3, true)
		}
		s.Duration = time.Second
		for range throughputRounds {
			if res, err = r.run(s, scenario.Options{Solo: true}); err != nil {
				return err
			}
			r.Claims.Check(name+": throughput_vs_solo", res.ThroughputVsSolo, 0.97, false)
		}
	}
	return nil
}

// limit: a job that may have 0.3 of a device, alone with it and beside a saturating neighbour.
func limit(r *results, d time.Duration) error {
	a, err := job("limited", "mobilenetv2", share.Share{Compute: 0.3, Limit: 0.3},
		scenario.Arrival{Closed: 1})
	if err != nil {
		return err
	}
	b, err := job("neighbour", "resnet50", share.Share{Compute: 0.5}, scenario.Arrival{Closed: 1})
	if err != nil {
		return err
	}
	for _, jobs := range [][]scenario.Job{{a}, {a, b}} {
		res, err := r.run(&scenario.Scenario{Policy: "fair", Duration: d, Seed: 1, Jobs: jobs},
			scenario.Options{})
		if err != nil {
			return err
		}
		r.Claims.Check(fmt.Sprintf("limit 0.3 among %d jobs: most of any 1 s", len(jobs)),
			res.Jobs[0].DeviceShareMax, 0.31, true)
		r.Claims.Check(fmt.Sprintf("limit 0.3 among %d jobs: device share", len(jobs)),
			res.Jobs[0].DeviceShare, 0.29, false)
	}
	return nil
}

// priority: a latency job at 30 % load beside an opportunistic job that saturates, and the same
// pair as processes.
func priority(r *results, d time.Duration) error {
	a, err := job("latency", "mobilenetv2", share.Share{Class: share.Latency, Compute: 0.4},
		scenario.Arrival{Load: 0.3})
	if err != nil {
		return err
	}
	b, err := job("batch", "resnet50", share.Share{Class: share.Opportunistic},
		scenario.Arrival{Closed: 1})
	if err != nil {
		return err
	}
	exe, err := executable()
	if err != nil {
		return err
	}
	// A p99 needs many requests, and both sides the same ones.
	d *= 2
	res, err := r.run(
		&scenario.Scenario{Policy: "priority", Duration: d, Seed: 1, Jobs: []scenario.Job{a, b}},
		scenario.Options{Solo: true, SoloDuration: d,
			Compare: []scenario.Mode{scenario.Processes}, Child: []string{exe, "-child"}},
	)
	if err != nil {
		return err
	}
	r.judgePriority(res)
	return nil
}

// judgePriority says what the latency job and the batch job got together.
func (r *results) judgePriority(res *scenario.Result) {
	lat, batch := res.Jobs[0], res.Jobs[1]
	r.Claims.Check("priority: p99 of the latency job against alone",
		lat.Latency.P99/lat.SoloLatency.P99, 1.1, true)
	left := 1 - lat.DeviceShare
	r.Claims.Check("priority: opportunistic job's speed over alone, of the idle time",
		batch.IterationsPerS/batch.SoloPerS/left, 0.85, false)
	r.Claims.Check("priority: opportunistic job's part of the time left over",
		batch.DeviceShare/left, 0.8, false)
	for _, p := range res.Phases {
		if p.Mode == scenario.Processes {
			fmt.Fprintf(os.Stderr,
				"        as processes, nice 0 and 19: p99 %.2f times alone, batch %.2f of its "+
					"solo throughput\n", p.Jobs[0].Latency.P99/lat.SoloLatency.P99,
				p.Jobs[1].IterationsPerS/batch.SoloPerS)
		}
	}
	fmt.Fprintf(os.Stderr,
		"        under weir: p99 %.2f ms, alone %.2f ms; batch %.2f of its solo throughput\n",
		lat.Latency.P99, lat.SoloLatency.P99, batch.IterationsPerS/batch.SoloPerS)
}

// fault: a job that asks for more than its cap, and one whose request carries bad data, beside a
// latency job.
func fault(r *results, d time.Duration) error {
	a, err := job("latency", "mobilenetv2", share.Share{Class: share.Latency, Compute: 0.4},
		scenario.Arrival{Load: 0.3})
	if err != nil {
		return err
	}
	greedy, err := job("greedy", "resnet50", share.Share{Memory: 1 << 20},
		scenario.Arrival{Closed: 1})
	if err != nil {
		return err
	}
	broken := scenario.Job{
		Job:     share.Job{Name: "broken"},
		Model:   "gather",
		Graph:   gather(),
		Arrival: scenario.Arrival{Poisson: 1},
		Given:   map[string]*tensor.Tensor{"index": tensor.Scalar[int64](1000)},
	}
	s := &scenario.Scenario{Policy: "priority", Duration: 2 * d, Seed: 1, Jobs: []scenario.Job{a}}
	alone, err := scenario.Run(context.Background(), s, scenario.Options{})
	if err != nil {
		return err
	}
	// the same requests, not the same load anew
	s.Jobs[0].Arrival = scenario.Arrival{Poisson: alone.Jobs[0].ArrivalPerS}
	s.Jobs = append(s.Jobs, greedy, broken)
	res, err := scenario.Run(context.Background(), s, scenario.Options{})
	if err != nil {
		return err
	}
	r.Phases = append(r.Phases, alone.Phase, res.Phase)
	if res.Jobs[1].Status != scenario.StatusRefused || res.Jobs[2].Status != scenario.StatusFailed {
		return fmt.Errorf("the greedy job is %s and the broken one %s", res.Jobs[1].Status,
			res.Jobs[2].Status)
	}
	r.Claims.Check("fault: p99 of the neighbour of a refused and a failing job against alone",
		res.Jobs[0].Latency.P99/alone.Jobs[0].Latency.P99, 1.2, true)
	return nil
}

// gather is a look-up in a table of ten numbers.
func gather() *graph.Graph {
	index := &graph.Value{Name: "index", Type: op.Concrete(tensor.Int64)}
	table := graph.NewConst("table", tensor.From(make([]float32, 10), 10))
	n := graph.NewNode("lookup", "Gather", 13, nil, []*graph.Value{table, index}, "y")
	n.Out[0].Type = op.Concrete(tensor.Float32)
	return &graph.Graph{
		Name:    "gather",
		Inputs:  []*graph.Value{index},
		Outputs: n.Out,
		Nodes:   []*graph.Node{n},
		Opsets:  map[string]int{"": 13},
	}
}

// executable returns this program, which go run leaves in place while it runs.
func executable() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	if _, err := exec.LookPath(exe); err != nil {
		return "", err
	}
	return filepath.Abs(exe)
}
