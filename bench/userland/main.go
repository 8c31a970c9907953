// Command userland runs NVIDIA's own software, unmodified, on the simulated driver, each program
// with and without weir exec, and shows the results side by side:
//
//	go run ./bench/userland > bench/results/DATE-userland.md
//	go run ./bench/userland -rung 1 -only graphs   # one rung, one program
//	go run ./bench/userland -rung 3                # 7 GB of wheels, as for rung 4
//
// Rung 1 is programs compiled with NVIDIA's compiler, with the runtimes of CUDA 12.9 and 13.4,
// each linked statically and not (samples). Rung 2 is its bindings for Python, Numba, CuPy and
// Triton (python). Rung 3 is PyTorch with each of its allocators, rung 4 JAX and vLLM's start. The
// wheels come from the package registry, by pip, in the versions and with the checksums of the
// folder wheels, into the user's cache; none is part of this source. It needs Linux on amd64,
// Python with pip, and a C++ compiler.
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
	"syscall"
)

func main() {
	rung := flag.Int("rung", 0, "1 to 4; the first two otherwise")
	only := flag.String("only", "", "one program")
	asJSON := flag.Bool("json", false, "print one JSON object")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := run(ctx, *rung, *only, *asJSON)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "userland:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

func run(ctx context.Context, rung int, only string, asJSON bool) (bool, error) {
	l, err := newLadder(ctx)
	if err != nil {
		return false, err
	}
	defer l.close()
	var all []result
	for _, r := range rungs {
		if rung != r.number && (rung != 0 || r.named) {
			continue
		}
		programs, err := r.programs(l)
		if err != nil {
			return false, err
		}
		for _, p := range programs {
			if only != "" && only != p.name {
				continue
			}
			fmt.Fprintf(os.Stderr, "rung %d: %s, %s\n", r.number, p.artefact, p.name)
			res, err := l.both(p)
			if err != nil {
				return false, err
			}
			all = append(all, res)
		}
	}
	if asJSON {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		err = e.Encode(all)
	} else {
		err = table(os.Stdout, all)
	}
	ok := true
	for _, r := range all {
		ok = ok && r.ok()
	}
	return ok, err
}
