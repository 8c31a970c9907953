// Command tiles tries Intel's Advanced Matrix Extensions on a machine that has them: a million
// random products of all heights and kinds of numbers, under ten thousand signals a second to each
// thread, and the tests of products, convolutions, attention, operators and plans, in which results
// on tiles must have the bits of their definition; random products of whole packed operands; and
// the rate of products in each format. It is made to take less than ten minutes. How fast whole
// models are beside other runtimes says go run ./bench/int8 and go run ./bench/precision.
//
//	go run ./bench/tiles
//	go run ./bench/tiles -products 100000 -time 10s
//
// It exits with 1 when a test fails, and with 3, saying what is lacking, where the processor has no
// tiles, the system does not let programs use them, or WEIR_ISA allows no more than a path below.
// That the comparison would find faults of several kinds holds TestTheComparisonFindsFaults of
// internal/kernel/gemm on every machine.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// Exit codes.
const (
	exitFailed = 1
	exitLacks  = 3
)

func main() {
	products := flag.Int("products", 1_000_000, "random products on tiles")
	length := flag.Duration("time", time.Minute, "how long products of packed operands are tried")
	flag.Parse()
	if *products < 1 || *length <= 0 {
		fmt.Fprintln(os.Stderr, "tiles: want a number of products and a time above 0")
		os.Exit(2)
	}
	lacking := lacks(cpuinfo.CurrentPath(), cpuinfo.PermitTiles)
	os.Exit(run(os.Stdout, commands(*products, *length), lacking))
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

// run tries tiles by commands of Go unless something is lacking, and returns the exit code.
func run(out io.Writer, commands [][]string, lacking error) int {
	fmt.Fprintf(out, "%s, path %v\n", cpuinfo.ModelName(), cpuinfo.CurrentPath())
	if lacking != nil {
		fmt.Fprintf(out, "nothing is tried: %v\n", lacking)
		return exitLacks
	}
	for _, args := range commands {
		c := exec.Command("go", args...)
		c.Stdout, c.Stderr = out, os.Stderr
		if err := c.Run(); err != nil {
			fmt.Fprintf(out, "go %s: %v\n", strings.Join(args, " "), err)
			return exitFailed
		}
	}
	return 0
}

// commands are those of Go that try tiles: a test that only skips fails the first, which wants
// tiles to be there.
func commands(products int, length time.Duration) [][]string {
	const gemm = "./internal/kernel/gemm"
	return [][]string{
		{"test", "-count=1", "-v", "-timeout=9m", "-run=^TestTilesOfThisProcessor$", gemm,
			fmt.Sprintf("-products=%d", products)},
		{"test", "-count=1", gemm, "./internal/refmath", "./internal/asm", "./internal/cpuinfo",
			"./internal/kernel/conv", "./internal/kernel/attention", "./device/cpu/kernels"},
		{"test", "-count=1", "-run=^(TestPlansOnTiles|TestSameBits)$", "./plan"},
		{"test", "-count=1", "-run=^$", "-fuzz=^FuzzProduct$", "-fuzztime=" + length.String(),
			gemm},
		{"test", "-count=1", "-run=^$", "-bench=^Benchmark(Product|Peak)$", "-benchtime=200ms",
			gemm},
	}
}
