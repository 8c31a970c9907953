package nbits

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/weirgpu/weir/kernel/gemm"
)

func TestScratch(t *testing.T) {
	if os.Getenv("SCRATCH") == "" {
		t.Skip()
	}
	for _, s := range []struct{ m, n, k int }{{1, 384, 384}, {1, 1536, 384}, {8, 384, 384}, {16, 384, 1536}, {24, 384, 1536}, {24, 2048, 2048}, {32, 2048, 2048}, {64, 384, 1536}, {64, 2048, 2048}, {128, 384, 1536}, {128, 1536, 384}} {
		r := rand.New(rand.NewPCG(1, 1))
		w := newRandom(t, r, s.n, s.k, 32, Centred)
		a := randomRows(r, s.m, s.k)
		c := make([]float32, s.m*s.n)
		run := func(p Precision, rows []byte) {
			for i := range s.m {
				w.Prepare(p, rows[i*w.RowBytes(p):], a[i*s.k:][:s.k])
			}
			for panel := range w.Panels() {
				w.Product(p, c, s.n, rows, s.m, w.packed, panel)
			}
		}
		r0, r1 := make([]byte, s.m*w.RowBytes(F32)), make([]byte, s.m*w.RowBytes(Int8))
		gp := gemm.Params{M: s.m, N: s.n, K: s.k, PackedB: true}
		o, _ := gemm.New(gp)
		b := make([]float32, gemm.F32.PackedBLen(s.k, s.n))
		gemm.F32.PackB(b, w.dense, s.k, s.n, 0, false)
		sc := make([]float32, o.ScratchLen())
		args := gemm.Args{A: a, B: b, C: c}
		gf := gp
		gf.PackedB, gf.PackedA = false, true
		width := gemm.F32.PanelColumns()
		gf.Fill = func(dst, src []float32, k0, k1, j0, _ int) {
			for p := j0 / w.Columns(); p < (j0+width)/w.Columns() && p < w.Panels(); p++ {
				w.Widen(dst[p*w.Columns()-j0:], width, w.packed, p, k0, k1)
			}
		}
		of, _ := gemm.New(gf)
		sf := make([]float32, of.ScratchLen())
		pa := make([]float32, gemm.F32.PackedALen(s.m, s.k))
		argsf := gemm.Args{A: pa, C: c, B: b}
		fs := []func(){
			func() {
				for i := range o.Chunks() {
					o.Run(i, &args, sc)
				}
			},
			func() {
				gemm.F32.PackA(pa, a, s.m, s.k, 0, false)
				for i := range of.Chunks() {
					of.Run(i, &argsf, sf)
				}
			},
			func() { run(F32, r0) },
			func() { run(Int8, r1) },
		}
		best := []time.Duration{time.Hour, time.Hour, time.Hour, time.Hour}
		for start := time.Now(); time.Since(start) < 1500*time.Millisecond; {
			for i, f := range fs {
				t0 := time.Now()
				f()
				best[i] = min(best[i], time.Since(t0))
			}
		}
		fmt.Printf("%4dx%dx%d gemm %7.1fus (%.0f GFLOP/s)  fill %.2f  few %.2f (%.1f GB/s)  int8 %.2f (%.1f GB/s)\n", s.m, s.n, s.k, float64(best[0].Nanoseconds())/1e3, 2*float64(s.m*s.n*s.k)/float64(best[0].Nanoseconds()),
			float64(best[1])/float64(best[0]), float64(best[2])/float64(best[0]), float64(len(w.packed))/float64(best[2].Nanoseconds()), float64(best[3])/float64(best[0]), float64(len(w.packed))/float64(best[3].Nanoseconds()))
	}
}
