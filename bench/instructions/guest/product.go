//go:build unix

package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"

	"github.com/weirgpu/weir/internal/kernel/gemm"
)

// forms are the forms of numbers of a product.
var forms = map[string]gemm.Format{"fp32": gemm.F32, "bf16": gemm.BF16, "int8": gemm.U8S8}

// product multiplies M x K by K x N, the second packed beforehand as weights are, once to warm up
// and then RUNS times, between marks:
//
//	guest product FORM M N K RUNS FILE
//
// The elements are whole numbers from 0 to 7 and from -7 to 7, so that each form gives the same
// results, which go to the file as float32.
func product(args []string) error {
	if len(args) != 6 {
		return fmt.Errorf("guest product takes FORM M N K RUNS FILE, got %v", args)
	}
	form, ok := forms[args[0]]
	if !ok {
		return fmt.Errorf("form %q: fp32, bf16 or int8", args[0])
	}
	var n [4]int
	for i := range n {
		var err error
		if n[i], err = strconv.Atoi(args[1+i]); err != nil || n[i] < 1 || n[i] > 1<<16 {
			return fmt.Errorf("%q: a number from 1 to 65536", args[1+i])
		}
	}
	c, err := multiply(form, n[0], n[1], n[2], n[3])
	if err != nil {
		return err
	}
	var data []byte
	for _, x := range c {
		data = binary.NativeEndian.AppendUint32(data, math.Float32bits(x))
	}
	return os.WriteFile(args[5], data, 0o666)
}

// multiply is product.
func multiply(form gemm.Format, m, n, k, runs int) ([]float32, error) {
	c := make([]float32, m*n)
	args := gemm.Args{A: elements(m*k, 8, 0, form == gemm.U8S8), C: c}
	b := numbers(k*n, 15, 7)
	p := gemm.Params{M: m, N: n, K: k, Format: form, PackedB: true}
	if form == gemm.U8S8 {
		if k%4 > 0 {
			return nil, fmt.Errorf("%d bytes along K: want a multiple of 4", k)
		}
		b, p.K, p.ToStore = quads(b, k, n), k/4, true
		args.Store = func(x []float32, ld, _, i0, i1, j0, j1 int) {
			for i := i0; i < i1; i++ {
				copy(c[i*n+j0:i*n+j1], x[(i-i0)*ld:])
			}
		}
	}
	args.B = make([]float32, form.PackedBLen(p.K, n))
	form.PackB(args.B, b, p.K, n, 0, false)
	o, err := gemm.New(p)
	if err != nil {
		return nil, err
	}
	scratch := make([]float32, o.ScratchLen())
	debug.SetGCPercent(-1)
	runtime.GC()
	for range runs + 1 {
		mark()
		for chunk := range o.Chunks() {
			o.Run(chunk, &args, scratch)
		}
	}
	mark()
	if form == gemm.U8S8 {
		for i, x := range c {
			c[i] = float32(int32(math.Float32bits(x)))
		}
	}
	return c, nil
}

// numbers are whole ones from -least on, below limit-least.
func numbers(n, limit, least int) []float32 {
	x, state := make([]float32, n), uint32(limit)
	for i := range x {
		state = state*1664525 + 1013904223
		x[i] = float32(int(state>>8)%limit - least)
	}
	return x
}

// elements are numbers, four to a word where they are bytes.
func elements(n, limit, least int, bytes bool) []float32 {
	x := numbers(n, limit, least)
	if !bytes {
		return x
	}
	return quads(x, n, 1)
}

// quads makes words of bytes of a matrix of k rows: four neighbours of a column.
func quads(x []float32, k, n int) []float32 {
	words := make([]float32, k/4*n)
	for i := range words {
		var w uint32
		for b := range 4 {
			w |= uint32(uint8(int8(x[(i/n*4+b)*n+i%n]))) << (8 * b)
		}
		words[i] = math.Float32frombits(w)
	}
	return words
}
