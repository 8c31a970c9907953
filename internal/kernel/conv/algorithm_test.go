package conv

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/internal/kernel/gemm"
)

// TestWays holds that every way that is offered computes the convolution, that the cost model's
// comes first, and that no other is accepted.
func TestWays(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(31, 32))
		seen := map[Algorithm]int{}
		draw := func(i int) Params {
			switch {
			case i < 3: // one image to several filters, by channel or as a product
				p := square(1, 24, 17, 3, 1+i%2, 1, 1)
				p.Bias, p.Reused = true, true
				return p
			case i%3 == 0:
				return transformed(r)
			}
			return randomParams(r)
		}
		for i := range 60 {
			p := draw(i)
			ways := p.Algorithms()
			op, err := New(p)
			if err != nil || len(ways) == 0 || ways[0] != op.Algorithm() {
				t.Fatalf("%+v: ways %v, chosen %v, %v", p, ways, op, err)
			}
			for _, w := range []Algorithm{AlgoProduct, AlgoPixels, AlgoDepthwise,
				AlgoWinograd, "none"} {
				p.Algorithm = w
				if slices.Contains(ways, w) {
					seen[w]++
					checkWay(t, r, p)
				} else if _, err := New(p); !errors.Is(err, ErrParams) && len(ways) > 1 {
					t.Errorf("%+v: %v beside %v", p, err, ways)
				}
			}
		}
		for _, w := range []Algorithm{AlgoProduct, AlgoPixels, AlgoDepthwise} {
			if seen[w] == 0 {
				t.Errorf("%s was never offered", w)
			}
		}
		if hasWinograd(currentLevel()) && seen[AlgoWinograd] == 0 {
			t.Error("tiles were never offered")
		}
	})
}

// checkWay compares the way that p asks for with the definition.
func checkWay(t *testing.T, r *rand.Rand, p Params) {
	t.Helper()
	args := dataFor(t, r, p)
	y, check := guarded(r, len(args.Y))
	args.Y = y
	op, err := New(p)
	if err != nil || op.Algorithm() != p.Algorithm {
		t.Fatalf("%+v: %v", p, err)
	}
	runPlanned(t, r, op, args)
	check(t, "Y")
	args.Y = make([]float32, len(y))
	Reference(p, &args)
	compare(t, fmt.Sprintf("%+v", p), y, args.Y, 1e-4*math.Sqrt(float64(p.C)))
}

// TestProblem holds that everything that times depend on makes another problem, and what is the
// same another way of writing does not.
func TestProblem(t *testing.T) {
	base := square(64, 128, 56, 3, 1, 1, 1)
	base.Bias, base.Clamp, base.Reused = true, true, true
	const want = "conv f32 1x64x56x56 m128 k3x3 s1x1 p1x1,1x1 bias clamp"
	if got := base.Problem(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	line := Params{N: 1, C: 3, M: 3, Group: 3,
		Window: Window{In: [3]int{1, 1, 9}, Kernel: [3]int{1, 1, 3}, Dilate: [3]int{1, 1, 2}}}
	if got, want := line.Problem(), "conv f32 1x3x9 m3 k3 s1 p0,0 d2 g3 repacked"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	seen := map[string]int{base.Problem(): -1}
	for i, change := range []func(p *Params){
		func(p *Params) {
			p.N++
		}, func(p *Params) {
			p.C++
		}, func(p *Params) { p.M++ }, func(p *Params) { p.In[0]++ }, func(p *Params) { p.In[1]++ },
		func(p *Params) {
			p.In[2]++
		}, func(p *Params) {
			p.Kernel[1]++
		}, func(p *Params) { p.Stride[2]++ }, func(p *Params) { p.PadLo[1]++ },
		func(p *Params) {
			p.PadHi[2]++
		}, func(p *Params) {
			p.Dilate[1] = 2
		}, func(p *Params) { p.Group = 2 }, func(p *Params) { p.Format = gemm.BF16 },
		func(p *Params) {
			p.Bias = false
		}, func(p *Params) { p.Residual = true }, func(p *Params) { p.Clamp = false },
		func(p *Params) { p.Map = func(dst, x []float32) {} }, func(p *Params) { p.Reused = false },
	} {
		p := base
		change(&p)
		if other, ok := seen[p.Problem()]; ok {
			t.Errorf("changes %d and %d are both %q", i, other, p.Problem())
		}
		seen[p.Problem()] = i
	}
	same := base
	same.Group, same.Stride, same.Hi, same.Algorithm = 0, [3]int{}, 6, AlgoPixels
	if same.Problem() != base.Problem() {
		t.Errorf("%q and %q", same.Problem(), base.Problem())
	}
	if bad := (Params{}).Problem(); bad != "" || (Params{}).Algorithms() != nil {
		t.Errorf("no convolution is problem %q", bad)
	}
}

// TestPointwiseChoice holds what the cost model makes of 1 x 1 convolutions with AVX-512, as
// measured: of an image read where it lies it is the columns that tiles take vectors of, unless
// they begin anywhere in a line of the cache; and of one that comes from far it always is.
func TestPointwiseChoice(t *testing.T) {
	if currentLevel() != levelAVX512 {
		t.Skip("made for AVX-512")
	}
	for _, c := range []struct {
		c, m, rows, cols int
		want             Algorithm
	}{
		{88, 16, 3, 96, AlgoProduct}, {192, 128, 40, 40, AlgoProduct},
		{128, 64, 80, 80, AlgoProduct},
		{128, 16, 55, 55, AlgoPixels}, {384, 96, 26, 26, AlgoPixels}, {384, 64, 14, 14, AlgoPixels},
		{1024, 192, 7, 7, AlgoPixels},
	} {
		p := square(c.c, c.m, 1, 1, 1, 0, 1)
		p.In[1], p.In[2], p.Reused = c.rows, c.cols, true
		want := c.want
		if gemm.ComesFar(c.c * c.rows * c.cols) {
			want = AlgoProduct
		}
		if got := p.Algorithms()[0]; got != want {
			t.Errorf("%s: %s, want %s", p.Problem(), got, want)
		}
	}
}
