//go:build unix

// Command guest runs a model on one thread, once to warm up and then RUNS times, and marks for the
// emulator's plugin where each run begins and where the last ends. It is what bench/instructions
// builds for arm64, and takes what ort.c takes, or runs a product of matrices:
//
//	guest MODEL RUNS OUTPUT FILE [INPUT TYPE SHAPE FILE]...
//	guest product FORM M N K RUNS FILE
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/weirgpu/weir"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 && args[0] == "product" {
		return product(args[1:])
	}
	if len(args) < 4 || len(args)%4 != 0 {
		return errors.New("guest takes MODEL RUNS OUTPUT FILE, and 4 words about each input")
	}
	runs, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	m, err := weir.Open(args[0], weir.WithThreads(1))
	if err != nil {
		return err
	}
	defer m.Close()
	in := weir.Inputs{}
	for a := args[4:]; len(a) > 0; a = a[4:] {
		if in[a[0]], err = input(a[1], a[2], a[3]); err != nil {
			return fmt.Errorf("input %s: %w", a[0], err)
		}
	}
	// Under emulation a run takes minutes, after which the runtime collects whether or not there is
	// garbage; runs leave none.
	debug.SetGCPercent(-1)
	runtime.GC()
	for n := range runs + 1 {
		mark()
		if err := once(m, in, n == 0, args[2], args[3]); err != nil {
			return err
		}
	}
	mark()
	return nil
}

// once runs the model, and writes its output to a file if asked to.
func once(m *weir.Model, in weir.Inputs, write bool, output, file string) error {
	out, err := m.Run(context.Background(), in)
	if err != nil {
		return err
	}
	defer out.Close()
	if !write {
		return nil
	}
	values, err := weir.Output[float32](out, output)
	if err != nil {
		return err
	}
	data := make([]byte, 0, 4*len(values))
	for _, v := range values {
		data = binary.NativeEndian.AppendUint32(data, math.Float32bits(v))
	}
	return os.WriteFile(file, data, 0o666)
}

// input reads a value of float32 or int64, which are 1 and 7 to ONNX.
func input(kind, shape, file string) (*weir.Tensor, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var dims []int
	for d := range strings.SplitSeq(shape, ",") {
		n, err := strconv.Atoi(d)
		if err != nil {
			return nil, err
		}
		dims = append(dims, n)
	}
	switch kind {
	case "1":
		v := make([]float32, len(data)/4)
		for i := range v {
			v[i] = math.Float32frombits(binary.NativeEndian.Uint32(data[4*i:]))
		}
		return weir.NewTensor(v, dims...)
	case "7":
		v := make([]int64, len(data)/8)
		for i := range v {
			v[i] = int64(binary.NativeEndian.Uint64(data[8*i:]))
		}
		return weir.NewTensor(v, dims...)
	}
	return nil, fmt.Errorf("a value of type %s: 1 and 7 are known", kind)
}

// mark asks for a descriptor to be closed that no program has open, which the plugin sees.
func mark() { _ = syscall.Close(-0x77656972) }
