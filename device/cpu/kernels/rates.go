package kernels

import (
	"sync"
	"time"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/kernel/gemm"
)

// The product that rates are measured with: whole tiles of every level, whose operands the second
// cache holds, so that one takes a tenth of a millisecond in float32, and all rounds some two.
const (
	ratedRows    = 224
	ratedColumns = 128
	ratedDepth   = 256
	ratedRounds  = 7

	// definedRate stands for the rate where tiles are their definition, which says nothing of it.
	definedRate = 8
)

// rates are those of bfloat16 by path of instructions, as far as they were wanted.
var rates = struct {
	sync.Mutex
	of map[cpuinfo.Path]*compute.Rate
}{of: map[cpuinfo.Path]*compute.Rate{}}

// bf16Rate is how many times as fast as in float32 packed operands are multiplied in bfloat16 on
// the path in force: what rounding them takes is counted for each product.
func bf16Rate() *compute.Rate {
	if cpuinfo.TilesDefined() {
		return compute.RateOf(func() float64 { return definedRate })
	}
	rates.Lock()
	defer rates.Unlock()
	path := cpuinfo.CurrentPath()
	if rates.of[path] == nil {
		rates.of[path] = compute.RateOf(func() float64 { return rateByTimes(timed) })
	}
	return rates.of[path]
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

// timed returns a function that tells how long a product takes in a format.
func timed(f gemm.Format) func() time.Duration {
	p, err := gemm.New(gemm.Params{M: ratedRows, N: ratedColumns, K: ratedDepth, Format: f,
		PackedA: true, PackedB: true})
	if err != nil {
		panic(err) // the sizes are constants
	}
	args := gemm.Args{A: make([]float32, f.PackedALen(ratedRows, ratedDepth)),
		B: make([]float32, f.PackedBLen(ratedDepth, ratedColumns)),
		C: make([]float32, ratedRows*ratedColumns)}
	scratch := make([]float32, p.ScratchLen())
	return func() time.Duration {
		start := time.Now()
		for c := range p.Chunks() {
			p.Run(c, &args, scratch)
		}
		return time.Since(start)
	}
}
