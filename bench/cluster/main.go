// Command cluster prints which part of all devices placement policies give away on the openb
// traces, beside what the authors of FGD published, and how many requests are placed a second:
//
//	go run ./bench/cluster              # a minute; 17 workloads, seven policies, ten seeds
//	go run ./bench/cluster -json > bench/results/DATE-cluster.json
//
// The traces are read from ../shared/data/openb.tar.xz or the folder that WEIR_OPENB names. What is
// given away depends on nothing but the traces and seeds. Rates depend on the machine; they are per
// second of processor time on one core, on 10,000 nodes like those of the trace: while they fill,
// and full, where each request that is placed follows one that has gone. The exit code is 1 when a
// bound is missed.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

type results struct {
	Date    string `json:"date"`
	Machine string `json:"machine"`
	Go      string `json:"go"`
	Seeds   int    `json:"seeds"`
	Table   []row  `json:"table"`
	Rates   []rate `json:"rates"`
	// Missed says which bounds do not hold.
	Missed []string `json:"missed"`
}

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object")
	seeds := flag.Int("seeds", 10, "how many seeds, from 42 on; ten are published")
	flag.Parse()
	runtime.GOMAXPROCS(1)
	r := &results{Date: time.Now().UTC().Format(time.DateOnly), Machine: cpuinfo.ModelName(),
		Go: runtime.Version(), Seeds: *seeds}
	if err := r.run(*asJSON); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

var errMissed = errors.New("bounds are missed")

func (r *results) run(asJSON bool) error {
	dir, err := traces()
	if err != nil {
		return err
	}
	if err := r.measure(dir); err != nil {
		return err
	}
	if asJSON {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		if err := e.Encode(r); err != nil {
			return err
		}
	} else {
		r.print()
	}
	if len(r.Missed) > 0 {
		return errMissed
	}
	return nil
}

func (r *results) print() {
	fmt.Printf("%-12s %-10s %9s %9s %10s\n", "trace", "policy", "published", "here", "difference")
	for _, w := range r.Table {
		fmt.Printf("%-12s %-10s %9.2f %9.2f %+10.2f\n", w.Trace, w.Policy, w.Published, w.Here,
			w.Here-w.Published)
	}
	for _, w := range r.Rates {
		fmt.Printf("%-10s %6d nodes: %8.0f placed a second filling, %8.0f full\n", w.Policy,
			w.Nodes, w.Filling, w.Full)
	}
	for _, m := range r.Missed {
		fmt.Println("missed:", m)
	}
}
