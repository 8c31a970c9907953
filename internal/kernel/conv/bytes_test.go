package conv

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/internal/cputest"
)

// TestBytes compares convolutions of bytes with the same of floats, which hold such sums exactly.
func TestBytes(t *testing.T) {
	check := func(t *testing.T) {
		r := rand.New(rand.NewPCG(31, 32))
		for k := range 150 {
			p := randomParams(r)
			p = Params{Window: p.Window, N: p.N, C: p.C, M: p.M, Group: p.Group}
			if k%3 == 0 {
				p.C = p.Group * (1 + r.IntN(20))
			}
			if k%4 == 0 {
				// enough channels for pixels to be the rows of tiles
				p.M = p.Group * (13 + r.IntN(40))
			}
			ones := k%5 == 0
			if ones {
				p.M = p.Group
			}
			checkBytes(t, r, p, r.IntN(2) == 0, r.IntN(2) == 0, ones)
		}
	}
	atLevels(t, check)
	cputest.OnTiles(t, check)
}

func checkBytes(t *testing.T, r *rand.Rand, p Params, flipX, flipW, ones bool) {
	t.Helper()
	op, err := NewBytes(p, ones)
	if err != nil {
		t.Fatalf("%+v: %v", p, err)
	}
	n := p.M * p.C / p.Group * volume(p.Kernel)
	x, w := make([]byte, p.N*p.C*volume(p.In)), make([]byte, n)
	fx, fw := make([]float32, len(x)), make([]float32, n)
	zero := byte(r.IntN(256))
	for i := range x {
		x[i] = byte(r.Uint32())
		fx[i] = asMultiplied(x[i], flipX) - float32(zero)
	}
	for i := range w {
		w[i] = byte(r.Uint32())
		if flipW { // unsigned bytes become less by 128
			fw[i] = float32(w[i]) - 128
		} else {
			fw[i] = float32(int8(w[i]))
		}
		if ones {
			fw[i] = 1
		}
	}
	packed, check := guarded(r, op.PackedLen())
	sums := make([]int32, p.M)
	op.Pack(packed, sums, w, flipW)
	if ones {
		op.PackOnes(packed)
		for i := range sums {
			sums[i] = int32(n / p.M)
		}
	}
	check(t, "packed")
	words, check := guarded(r, op.WordsLen())
	for _, i := range r.Perm(op.Planes()) {
		op.Words(words, i, x, flipX, zero)
	}
	check(t, "words")
	m, pixels := p.M/p.Group, volume(op.Out())
	got := make([]float32, p.N*p.M*pixels)
	args := op.Args(packed, words, func(v []float32, ld, batch, i0, i1, j0, j1 int) {
		for i := i0; i < i1; i++ {
			for j := j0; j < j1; j++ {
				sum := int32(math.Float32bits(v[(i-i0)*ld+j-j0]))
				got[(batch*m+i)*pixels+j] = float32(sum - int32(zero)*sums[batch%p.Group*m+i])
			}
		}
	})
	scratch, check := guarded(r, op.ScratchLen())
	for _, c := range r.Perm(op.Chunks()) {
		op.Run(c, &args, scratch)
	}
	check(t, "scratch")
	want := make([]float32, len(got))
	Reference(p, &Args{X: fx, W: fw, Y: want})
	compare(t, "sums", got, want, 0)
}

// asMultiplied is an unsigned operand as the kernel sees it.
func asMultiplied(b byte, flip bool) float32 {
	if flip {
		b ^= 0x80
	}
	return float32(b)
}
