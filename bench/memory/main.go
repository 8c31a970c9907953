// Command memory measures what it costs and gains to have models share memory in turn, on the CPU:
//
//	go run ./bench/memory              # about seven minutes
//	go run ./bench/memory -only lanes -json > bench/results/DATE-memory.json
//
// Of the group zipf, twenty models have the room of five under requests by Zipf's law; what is
// counted is how many requests found all weights of their model on the device, under each rule of
// eviction. Each round has other models asked most. The rule lru is not the only rival: demand
// paging of whole models is simulated on the iterations as they began in the same runs, in the room
// that they had, and the better of the two counts. Of lanes, how many of twelve models a device
// admits with lanes and without. Of neighbour, the p99 of a latency job while such models switch
// beside it, over that alone, in turn; beside the figure stands how far alone is from alone for the
// second time. The exit code is 1 when a bound is missed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/feed"
	"github.com/weirgpu/weir/internal/claims"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/roofline"
	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/zoo"
)

type results struct {
	Date      string             `json:"date"`
	Machine   string             `json:"machine"`
	Processor roofline.Processor `json:"processor"`
	Cores     int                `json:"cores"`
	Go        string             `json:"go"`
	// Foreign is the processor time, in cores, that others took meanwhile.
	Foreign   float64     `json:"foreign_cores"`
	Claims    claims.Book `json:"claims"`
	Zipf      []zipfRound `json:"zipf,omitempty"`
	Lanes     []lanesRow  `json:"lanes,omitempty"`
	Neighbour []p99Round  `json:"neighbour,omitempty"`
	Pooled    *p99Pooled  `json:"neighbour_pooled,omitempty"`
}

// command is how messages begin.
const command claims.Command = "memory"

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object")
	rounds := flag.Int("rounds", 3, "how often zipf and neighbour are run; medians are quoted")
	duration := flag.Duration("duration", 30*time.Second, "how long each run of them takes")
	only := flag.String("only", "", "one of zipf, lanes, neighbour")
	flag.Parse()
	cpu.ReserveProcs(2) // as weir does
	r := &results{
		Date:      time.Now().UTC().Format("2006-01-02"),
		Machine:   cpuinfo.ModelName(),
		Processor: roofline.Identify(),
		Cores:     cpu.Cores(),
		Go:        runtime.Version(),
	}
	groups := []struct {
		name string
		run  func(n int, d time.Duration) error
	}{{"lanes", r.lanes}, {"zipf", r.zipf}, {"neighbour", r.neighbour}}
	others, known := claims.Start(), *only == ""
	for _, g := range groups {
		if *only == "" || *only == g.name {
			known = true
			command.Check(g.run(max(1, *rounds), *duration))
		}
	}
	if !known {
		command.Check(fmt.Errorf("-only %s: want zipf, lanes or neighbour", *only))
	}
	held := r.Claims.Judge(os.Stderr)
	r.Foreign = others.Foreign()
	fmt.Fprintf(os.Stderr, "others took %.2f of %d cores meanwhile\n", r.Foreign, r.Cores)
	command.Finish(r, *asJSON, held)
}

// network is a variant of a network whose activations are small beside its weights.
type network struct {
	arch    string
	options zoo.Options
	shapes  map[string]feed.Shape
}

var (
	tokens   = map[string]feed.Shape{"input_ids": {1, 16}}
	networks = []network{
		{"mobilenetv2", zoo.Options{Resolution: 96}, nil},               // 12 MiB
		{"resnet50", zoo.Options{Resolution: 96, Width: 0.75}, nil},     // 57 MiB
		{"minilm-l6", zoo.Options{Vocabulary: 2000}, tokens},            // 41 MiB
		{"yolov8n", zoo.Options{Resolution: 96}, nil},                   // 14 MiB
		{"bert-base", zoo.Options{Layers: 2, Vocabulary: 2000}, tokens}, // 56 MiB
		{"minilm-l6", zoo.Options{Layers: 2, Vocabulary: 1000}, tokens}, // 14 MiB
		{"gpt2", zoo.Options{Layers: 2, Vocabulary: 2000}, tokens},      // 59 MiB
		{"mobilenetv2", zoo.Options{Resolution: 96, Width: 1.5}, nil},   // 26 MiB
		{"resnet50", zoo.Options{Resolution: 64, Width: 0.5}, nil},      // 26 MiB
		{"bert-base", zoo.Options{Layers: 1, Vocabulary: 1000}, tokens}, // 28 MiB
	}
)

// models returns n elastic jobs that get so many requests a second together: the k-th most popular
// a k-th as many as the first. Popularity and size have nothing to do with each other.
// The first of them is of the network with number first.
func models(n, first int, perSecond float64) ([]scenario.Job, error) {
	sum := 0.0
	for k := range n {
		sum += 1 / float64(k+1)
	}
	var jobs []scenario.Job
	for k := range n {
		kind := &networks[(k+first)%len(networks)]
		o := kind.options
		o.Seed = uint64(k + 1)
		g, err := zoo.New(kind.arch, o)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, scenario.Job{Model: kind.arch, Graph: g, Shapes: kind.shapes,
			Job: share.Job{Name: fmt.Sprintf("%d-%s", k+1, kind.arch),
				Share: share.Share{Elastic: true}},
			Arrival: scenario.Arrival{Poisson: perSecond / sum / float64(k+1)}})
	}
	return jobs, nil
}

// play runs a scenario, of which every job must have served what came. What its core is told is
// written to record, unless that is nil.
func play(s *scenario.Scenario, record io.Writer) (*scenario.Result, error) {
	o := scenario.Options{}
	if record != nil {
		o.Record = func(string) io.Writer { return record }
	}
	res, err := scenario.Run(context.Background(), s, o)
	if err != nil {
		return nil, err
	}
	for i := range res.Jobs {
		if j := &res.Jobs[i]; j.Status != scenario.StatusDone {
			err = errors.Join(err, fmt.Errorf("job %s is %s: %s", j.Name, j.Status, j.Error))
		}
	}
	return res, err
}

// roomFor returns the memory in which n models of mean size fit beside what all keep, by a run of
// them where all fit, and how much of that is for the models.
func roomFor(n int, jobs []scenario.Job) (memory share.Bytes, room int64, err error) {
	res, err := play(&scenario.Scenario{Jobs: jobs, Duration: 10 * time.Millisecond}, nil)
	if err != nil {
		return 0, 0, err
	}
	var kept, weights []int64
	for i := range res.Jobs {
		kept = append(kept, res.Jobs[i].MemoryKeptBytes)
		weights = append(weights, res.Jobs[i].WeightBytes)
	}
	room = max(sum(weights)*int64(n)/int64(len(jobs)), slices.Max(weights))
	return share.Bytes(sum(kept) + room), room, nil
}

func sum(list []int64) (s int64) {
	for _, n := range list {
		s += n
	}
	return s
}
