// Command userland runs NVIDIA's own software, unmodified, on the simulated driver, each program
// with and without weir exec, on both profiles of its device, and shows the results side by side:
//
//	go run ./bench/userland                        # rungs 1 and 2
//	go run ./bench/userland -all > bench/results/DATE-userland.md
//	go run ./bench/userland -rung 1 -only graphs   # one rung, one program
//	go run ./bench/userland -rung 3                # 7 GB of wheels, as for rung 4
//
// Rung 1 is programs compiled with NVIDIA's compiler, with the runtimes of CUDA 12.9 and 13.4,
// each linked statically and not (samples). The compiler is that of 13.4 for both, with the headers
// of each: NVIDIA's wheels of CUDA 12, from 12.0 to 12.9, have ptxas and libnvvm, but neither nvcc
// nor cudafe++ and cicc, which it calls, and nothing else writes the host's side of a launch.
//
// Rung 2 is its bindings for Python, Numba, CuPy and Triton (python). Rung 3 is PyTorch with each
// of its allocators, rung 4 JAX and vLLM. The wheels come from the package registry, by pip, in the
// versions and with the checksums of the folder wheels, into the user's cache; none is part of this
// source. It needs Linux on amd64, Python with pip, and a C++ compiler.
//
// What a program prints is compared line by line, but for lines that begin with "memory": under
// weir those show the cap. The simulated device computes nothing, so no program prints what a
// kernel has worked out; all else is as on a device: what calls answer, what copies and sets move,
// what kernels' images say of themselves, and what is free at the end. The exit code is 1 when two
// runs differ, or memory is left behind.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

func main() {
	var o options
	flag.IntVar(&o.rung, "rung", 0, "1 to 4; the first two otherwise")
	flag.BoolVar(&o.all, "all", false, "all four rungs")
	flag.StringVar(&o.only, "only", "", "one program")
	flag.StringVar(&o.profile, "profile", "", "one profile of the device, plain or hardware")
	flag.BoolVar(&o.json, "json", false, "print one JSON object")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "userland:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// options are those of the command line.
type options struct {
	rung          int
	all           bool
	only, profile string
	json          bool
}

// run runs what the options name, and tells whether every program did the same both ways.
func run(ctx context.Context, o options) (bool, error) {
	var all []result
	for _, profile := range profiles {
		if o.profile != "" && o.profile != profile {
			continue
		}
		some, err := runOn(ctx, profile, o)
		if err != nil {
			return false, err
		}
		all = append(all, some...)
	}
	var err error
	if o.json {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		err = e.Encode(all)
	} else {
		err = table(os.Stdout, all)
	}
	return !slices.ContainsFunc(all, func(r result) bool { return !r.ok() }), err
}

// runOn runs programs on one profile.
func runOn(ctx context.Context, profile string, o options) ([]result, error) {
	l, err := newLadder(ctx, profile)
	if err != nil {
		return nil, err
	}
	defer l.close()
	var all []result
	for _, r := range rungs {
		if !o.all && o.rung != r.number && (o.rung != 0 || r.named) {
			continue
		}
		programs, err := r.programs(l)
		if err != nil {
			return nil, err
		}
		for _, p := range programs {
			if o.only != "" && o.only != p.name {
				continue
			}
			fmt.Fprintf(os.Stderr, "%s, rung %d: %s, %s\n", profile, r.number, p.artefact, p.name)
			res, err := l.both(p)
			if err != nil {
				return nil, err
			}
			all = append(all, res)
		}
	}
	return all, nil
}
