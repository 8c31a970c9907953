package kernels

import (
	"sync"
	"time"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/kernel/gemm"
)

// The product that rates are measured with: whole tiles of every level, whose operands the second
// cache holds, so that one takes a tenth of a millisecond in float32, and all rounds some two. The
// one of few steps finishes its results as a convolution does to which another image is added.
const (
	ratedRows    = 224
	ratedColumns = 128
	ratedDepth   = 256
	ratedShort   = 32
	ratedRounds  = 7

	// definedRate stands for the rate where tiles are their definition, which says nothing of it.
	definedRate = 8
)

// ratesOf are those of bfloat16 on a path of instructions: of many steps of K and of few.
type ratesOf struct{ long, short *compute.Rate }

// rates are those of the paths, as far as they were wanted.
var rates = struct {
	sync.Mutex
	of map[cpuinfo.Path]ratesOf
}{of: map[cpuinfo.Path]ratesOf{}}

// bf16Rates are how many times as fast as in float32 packed operands are multiplied in bfloat16 on
// the path in force: what rounding them takes is counted for each product.
func bf16Rates() ratesOf {
	if cpuinfo.TilesDefined() {
		defined := compute.RateOf(func() float64 { return definedRate })
		return ratesOf{defined, defined}
	}
	rates.Lock()
	defer rates.Unlock()
	path := cpuinfo.CurrentPath()
	r, ok := rates.of[path]
	if !ok {
		r = ratesOf{rateAt(ratedDepth), rateAt(ratedShort)}
		rates.of[path] = r
	}
	return r
}

// rateAt is the rate of products of so many steps of K.
func rateAt(depth int) *compute.Rate {
	return compute.RateOf(func() float64 {
		return rateByTimes(func(f gemm.Format) func() time.Duration { return timed(f, depth) })
	})
}

// rateByTimes is the rate of bfloat16 by how long a product takes in each format.
func rateByTimes(timed func(gemm.Format) func() time.Duration) float64 {
	return rateOf(timed(gemm.F32), timed(gemm.BF16), ratedRounds)
}

// rateOf is how many times as long the fastest of some runs of one takes as that of the other, each
// in turn: what else the machine does falls on both.
func rateOf(one, other func() time.Duration, rounds int) float64 {
	a, b := one(), other()
	for range rounds {
		a, b = min(a, one()), min(b, other())
	}
	return float64(max(a, 1)) / float64(max(b, 1))
}

// timed returns a function that tells how long a product of so many steps takes in a format.
func timed(f gemm.Format, depth int) func() time.Duration {
	q := gemm.Params{M: ratedRows, N: ratedColumns, K: depth, Format: f, PackedA: true,
		PackedB: true}
	if depth == ratedShort {
		q.Bias, q.Residual = gemm.BiasPerRow, gemm.ResidualFull
		q.Epilogue = gemm.Epilogue{Clamp: true, Hi: 6}
	}
	p, err := gemm.New(q)
	if err != nil {
		panic(err) // the sizes are constants
	}
	args := gemm.Args{A: make([]float32, f.PackedALen(ratedRows, depth)),
		B:        make([]float32, f.PackedBLen(depth, ratedColumns)),
		C:        make([]float32, ratedRows*ratedColumns),
		Bias:     make([]float32, ratedRows),
		Residual: make([]float32, ratedRows*ratedColumns)}
	scratch := make([]float32, p.ScratchLen())
	return func() time.Duration {
		start := time.Now()
		for c := range p.Chunks() {
			p.Run(c, &args, scratch)
		}
		return time.Since(start)
	}
}
