package conv

import (
	"math"
	"math/rand/v2"
	"testing"
)

// transformed draws a convolution that tiles can compute.
func transformed(r *rand.Rand) Params {
	p := Params{N: 1 + r.IntN(2), C: 1 + r.IntN(20), M: 1 + r.IntN(20), Group: 1, Reused: true}
	p.Window = square(1, 1, 1, 3, 1, 0, 1).Window
	for i := 1; i < 3; i++ {
		p.PadLo[i], p.PadHi[i] = r.IntN(4), r.IntN(4)
		p.In[i] = max(1, 3-p.PadLo[i]-p.PadHi[i]) + r.IntN(24)
		if r.IntN(12) == 0 {
			p.In[i] += 60
		}
	}
	p.Bias, p.Residual = r.IntN(2) == 0, r.IntN(2) == 0
	if r.IntN(2) == 0 {
		p.Clamp, p.Lo, p.Hi = true, -0.5, 1.5
	}
	if r.IntN(3) == 0 {
		p.Map = func(dst, x []float32) {
			for i, v := range x {
				dst[i] = v/2 + 1
			}
		}
	}
	return p
}

// TestTransformed compares the way by tiles with the definition, also where New would choose
// another way.
func TestTransformed(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		if !hasWinograd(currentLevel()) {
			t.Skip("no kernels for this processor")
		}
		r := rand.New(rand.NewPCG(21, 22))
		for range 80 {
			checkTransformed(t, r, transformed(r))
		}
		// several blocks of channels, and long sums
		for _, n := range [][2]int{{128, 57}, {128, 130}, {512, 20}} {
			p := square(n[0], n[1], 7, 3, 1, 1, 1)
			p.Reused, p.Bias, p.Residual = true, true, true
			checkTransformed(t, r, p)
		}
	})
}

func checkTransformed(t *testing.T, r *rand.Rand, p Params) {
	t.Helper()
	args := dataFor(t, r, p)
	y, check := guarded(r, len(args.Y))
	want := make([]float32, len(y))
	op, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := op.transform(); err != nil {
		t.Fatal(err)
	}
	run := args
	run.Y = y
	runPlanned(t, r, op, run)
	check(t, "Y")
	args.Y = want
	Reference(p, &args)
	checkTileBound(t, &p, &args, y)
}

// The transforms of winograd.go.
var (
	tileA = [tileOut][tileIn]float64{{1, 1, 1, 1, 1, 0}, {0, 1, -1, 2, -2, 0}, {0, 1, 1, 4, 4, 0},
		{0, 1, -1, 8, -8, 1}}
	tileB = [tileIn][tileIn]float64{{4, 0, -5, 0, 1, 0}, {0, -4, -4, 1, 1, 0}, {0, 4, -4, -1, 1, 0},
		{0, -2, -1, 2, 1, 0}, {0, 2, -1, -2, 1, 0}, {0, 4, 0, -5, 0, 1}}
	tileG = [tileIn][3]float64{{1.0 / 4, 0, 0}, {-1.0 / 6, -1.0 / 6, -1.0 / 6},
		{-1.0 / 6, 1.0 / 6, -1.0 / 6}, {1.0 / 24, 1.0 / 12, 1.0 / 6},
		{1.0 / 24, -1.0 / 12, 1.0 / 6}, {0, 0, 1}}
)

// sandwich sets y, rows x rows, to |m|·|x|·|m|' of a matrix m whose rows are given, of n columns.
func sandwich(y []float64, rows, n int, row func(i int) []float64, x func(k, l int) float64) {
	var half [tileIn * tileIn]float64 // |m|·|x|
	for l := range n {
		for k := range n {
			v := math.Abs(x(k, l))
			for i := range rows {
				half[i*n+l] += math.Abs(row(i)[k]) * v
			}
		}
	}
	for i := range rows {
		for j := range rows {
			y[i*rows+j] = 0
			for l, b := range row(j) {
				y[i*rows+j] += half[i*n+l] * math.Abs(b)
			}
		}
	}
}

// magnitudes is |A'| Σ (|G||g||G'| ∘ |B'||d||B|) |A|, which the rounding errors of winograd.go are
// a share of, for every output.
func (p *Params) magnitudes(args *Args, out [3]int) []float64 {
	high, wide := ceilDiv(out[1], tileOut), ceilDiv(out[2], tileOut)
	g, d := make([]float64, p.M*p.C*frequencies), make([]float64, p.N*p.C*high*wide*frequencies)
	for i := range p.M * p.C {
		sandwich(g[i*frequencies:], tileIn, 3, func(i int) []float64 { return tileG[i][:] },
			func(k, l int) float64 { return float64(args.W[9*i+3*k+l]) })
	}
	for i := range p.N * p.C * high * wide {
		ch, ty, tx := i/wide/high, i/wide%high, i%wide
		sandwich(d[i*frequencies:], tileIn, tileIn, func(i int) []float64 { return tileB[i][:] },
			func(k, l int) float64 {
				y, x := ty*tileOut-p.PadLo[1]+k, tx*tileOut-p.PadLo[2]+l
				if y < 0 || x < 0 || y >= p.In[1] || x >= p.In[2] {
					return 0
				}
				return float64(args.X[ch*volume(p.In)+y*p.In[2]+x])
			})
	}
	sums := make([]float64, p.N*p.M*volume(out))
	for i := range p.N * p.M * high * wide {
		n, m, tile := i/wide/high/p.M, i/wide/high%p.M, i%(wide*high)
		var products [frequencies]float64
		for c := range p.C {
			of := d[((n*p.C+c)*high*wide+tile)*frequencies:]
			for f, v := range g[(m*p.C+c)*frequencies:][:frequencies] {
				products[f] += v * of[f]
			}
		}
		var y [tileOut * tileOut]float64
		sandwich(y[:], tileOut, tileIn, func(i int) []float64 { return tileA[i][:] },
			func(k, l int) float64 { return products[k*tileIn+l] })
		for j, v := range y {
			at := [2]int{tile/wide*tileOut + j/tileOut, tile%wide*tileOut + j%tileOut}
			if at[0] < out[1] && at[1] < out[2] {
				sums[((n*p.M+m)*out[1]+at[0])*out[2]+at[1]] = v
			}
		}
	}
	return sums
}

// checkTileBound holds that y is as far from the reference in args as winograd.go derives.
func checkTileBound(t *testing.T, p *Params, args *Args, y []float32) {
	t.Helper()
	out, err := p.Window.setDefaults()
	if err != nil {
		t.Fatal(err)
	}
	// After the sum there are four roundings at most, with terms up to 1: bias, residual and Map's.
	n := float64(p.C+p.C/2048+1+tileRoundings+4) * 0x1p-24
	for i, s := range p.magnitudes(args, out) {
		bound := n / (1 - n) * (s + 3)
		if d := math.Abs(float64(y[i]) - float64(args.Y[i])); !(d <= bound) {
			t.Fatalf("%+v: element %d is %g, want %g: off by %g, at most %g", p, i, y[i], args.Y[i],
				d, bound)
		}
	}
}

// TestTileErrors compares root mean squares of errors: of outputs at each place of a tile, and of
// sums in the order of the definition. winograd.go derives how many times as large the first are.
// The transforms' own roundings add 8 % here, and a rounding is a share of a number that is up to
// twice as large at one end of a binade as at the other, where either kind of sums may lie.
func TestTileErrors(t *testing.T) {
	const c, m, size = 128, 48, 24
	r := rand.New(rand.NewPCG(23, 24))
	p := square(c, m, size, 3, 1, 1, 1)
	p.Reused, p.Algorithm = true, "winograd"
	args := dataFor(t, r, p)
	if _, err := p.Window.setDefaults(); err != nil {
		t.Fatal(err)
	}
	place := func(i int) int { return i/size%size%tileOut*tileOut + i%size%tileOut }
	exact := make([]float64, len(args.Y))
	var serial [tileOut * tileOut]float64
	for i := range exact {
		pos := [3]int{0, i / size % size, i % size}
		exact[i] = p.referenceSum(&args, 0, i/size/size, pos)
		e := serialSum(&p, &args, i/size/size, pos) - exact[i]
		serial[place(i)] += e * e
	}
	atLevels(t, func(t *testing.T) {
		if !hasWinograd(currentLevel()) {
			t.Skip("no kernels for this processor")
		}
		runOp(t, r, p, args)
		var tiles [tileOut * tileOut]float64
		for i, y := range args.Y {
			tiles[place(i)] += (float64(y) - exact[i]) * (float64(y) - exact[i])
		}
		for i := range tiles {
			ratio := math.Sqrt(tiles[i] / serial[i])
			derived := math.Sqrt(placeError[i/tileOut]*placeError[i%tileOut]) / 9
			if !(ratio >= 0.75*derived && ratio <= 1.4*derived) {
				t.Errorf("place %d: errors are %.2f times those of the definition, derived %.2f", i,
					ratio, derived)
			}
		}
	})
}

// placeError is Σ A'² |G|² |B'|² of the rows of the transforms, for each output of a line of a
// tile.
var placeError = func() (e [tileOut]float64) {
	square := func(x []float64) (s float64) {
		for _, v := range x {
			s += v * v
		}
		return s
	}
	for k, row := range tileA {
		for i, a := range row {
			e[k] += a * a * square(tileG[i][:]) * square(tileB[i][:])
		}
	}
	return e
}()

// serialSum is the sum of the products of an output in float32, one fused addition after another.
func serialSum(p *Params, args *Args, m int, pos [3]int) float64 {
	sum := float32(0)
	for tap := range 9 {
		at, ok := p.Window.tapAt(tap, pos)
		if !ok {
			continue
		}
		for ch := range p.C {
			x, w := args.X[ch*volume(p.In)+at], args.W[(m*p.C+ch)*9+tap]
			sum = float32(float64(x)*float64(w) + float64(sum))
		}
	}
	return float64(sum)
}

// tileRoundings is how many roundings an element has in the transforms: one of the weights, two and
// three in each line of those of inputs and outputs.
const tileRoundings = 1 + 2*2 + 2*3

// TestTaken holds the operations of tiles: 36 multiplications where the definition has 144, for
// whole tiles.
func TestTaken(t *testing.T) {
	p := square(64, 96, 20, 3, 1, 1, 1)
	p.Reused = true
	for _, way := range p.Algorithms() {
		p.Algorithm = way
		o, err := New(p)
		if err != nil {
			t.Fatal(err)
		}
		want := int64(0)
		if way == AlgoWinograd {
			want = o.FLOP() / 4
		}
		if o.Taken() != want {
			t.Errorf("%s takes %d of %d operations, want %d", way, o.Taken(), o.FLOP(), want)
		}
	}
}
