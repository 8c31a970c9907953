// Command tiles tries Intel's Advanced Matrix Extensions on a machine that has them: the tests of
// products, convolutions, attention, operators and plans, in which results on tiles must have the
// bits of their definition, random products, and the rate of products in each format. It takes some
// minutes. How fast whole models are beside other runtimes says go run ./bench/int8 and
// go run ./bench/precision.
//
//	go run ./bench/tiles
//	go run ./bench/tiles -time 5m      # of random products
//
// It exits with 1 when a test fails, and with 3, saying what is lacking, where the processor has no
// tiles, the system does not let programs use them, or WEIR_ISA allows no more than a path below.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// Exit codes.
const (
	exitFailed = 1
	exitLacks  = 3
)

func main() {
	length := flag.Duration("time", time.Minute, "how long random products are compared")
	flag.Parse()
	os.Exit(run(os.Stdout, *length, lacks(cpuinfo.CurrentPath(), cpuinfo.PermitTiles)))
}

// lacks says why tiles cannot be tried, nil where they can.
func lacks(path cpuinfo.Path, permit func() error) error {
	if err := permit(); err != nil {
		return err
	}
	if path < cpuinfo.PathAMX {
		return fmt.Errorf("products take the path %v, not %v: see %s", path, cpuinfo.PathAMX,
			cpuinfo.PathVariable)
	}
	return nil
}

// run tries tiles unless something is lacking, and returns the exit code.
func run(out io.Writer, length time.Duration, lacking error) int {
	fmt.Fprintf(out, "%s, path %v\n", cpuinfo.ModelName(), cpuinfo.CurrentPath())
	if lacking != nil {
		fmt.Fprintf(out, "nothing is tried: %v\n", lacking)
		return exitLacks
	}
	const gemm = "./internal/kernel/gemm"
	for _, args := range [][]string{
		{"test", "-count=1", gemm, "./internal/refmath", "./internal/asm", "./internal/cpuinfo",
			"./internal/kernel/conv", "./internal/kernel/attention", "./device/cpu/kernels"},
		{"test", "-count=1", "-run=^(TestPlansOnTiles|TestSameBits)$", "./plan"},
		{"test", "-count=1", "-run=^$", "-fuzz=^FuzzProduct$", "-fuzztime=" + length.String(),
			gemm},
		{"test", "-count=1", "-run=^$", "-bench=^Benchmark(Product|Peak)$", "-benchtime=200ms",
			gemm},
	} {
		c := exec.Command("go", args...)
		c.Stdout, c.Stderr = out, os.Stderr
		if err := c.Run(); err != nil {
			fmt.Fprintf(out, "go %s: %v\n", args[1], err)
			return exitFailed
		}
	}
	return 0
}
