package gemm

import (
	"flag"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirgpu/weir/internal/refmath"
)

// compared is how many random products [TestTilesOfThisProcessor] compares. Who sets it, as
// bench/tiles does, wants tiles to be there.
var compared = flag.Int("products", 0,
	"random products that tiles must compute as their definition does, which then must be there")

// tileRun computes a call, as [tileCall.run] and [tileCall.model] do.
type tileRun = func(c *tileCall, v level, a, b, out []float32)

// comparison compares what run makes of random calls with their definition: all heights, one to
// three tiles, ends of K, fresh sums and such that are added to, numbers of all kinds. Each call is
// computed some times more, as the definition takes a thousand times as long, and a signal is to
// find tiles in use. Call number i of a seed is always the same.
type comparison struct {
	run     tileRun
	calls   int
	seed    uint64
	again   int
	threads int
	signals bool
}

// compare returns the first difference that it finds, and how many signals were sent meanwhile.
func (x *comparison) compare() (sent int64, err error) {
	var next atomic.Int64
	var found atomic.Pointer[error]
	var all sync.WaitGroup
	var s signals
	for range x.threads {
		all.Go(func() {
			if x.signals {
				defer s.join()()
			}
			for i := next.Add(1); i <= int64(x.calls) && found.Load() == nil; i = next.Add(1) {
				if err := x.one(i); err != nil {
					found.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	if x.signals {
		stop := make(chan struct{})
		ended := make(chan int64)
		go func() { ended <- s.send(stop, 100*time.Microsecond) }()
		all.Wait()
		close(stop)
		sent = <-ended
	}
	all.Wait()
	if e := found.Load(); e != nil {
		err = *e
	}
	return sent, err
}

// one compares a call.
func (x *comparison) one(number int64) error {
	r := rand.New(rand.NewPCG(x.seed, uint64(number)))
	v := []level{levelTilesBF16, levelTilesU8S8, levelTilesS8U8}[r.IntN(3)]
	c := tileCall{steps: 1 + r.IntN(2), rows: 1 + r.IntN(tilesMR), tiles: 1,
		ldc: tilesNR + r.IntN(9), flags: uint32(r.IntN(2)) * flagAccumulate}
	if r.IntN(64) == 0 {
		c.steps = 1 + r.IntN(tilesKC/tileWords)
	}
	if c.rows > tileRows && r.IntN(3) == 0 {
		c.tiles = 2 + r.IntN(2)
	}
	kind := r.IntN(numberKinds)
	c.nextA = 4 * c.rows * c.steps * tileWords
	if r.IntN(3) == 0 { // rows where they lie
		c.rowA = c.steps*tileWords + r.IntN(40)
		c.nextA = 4 * c.rows * c.rowA
	}
	a := numbers(r, v, kind, c.tiles*c.nextA/4)
	b := numbers(r, v, kind, c.steps*tileWords*tilesNR)
	clear(b[len(b)-tilesNR*r.IntN(tileWords):]) // where K ends, zeros meet whatever
	c.nextC = 4 * c.rows * c.ldc
	rows := (c.tiles-1)*c.rows + max(c.rows, tileRows+1)
	before := numbers(r, v, kind, rows*c.ldc)
	want := slices.Clone(before)
	c.model(v, a, b, want)
	got := make([]float32, len(before))
	for range 1 + x.again {
		copy(got, before)
		x.run(&c, v, a, b, got)
		for i, w := range want {
			if math.Float32bits(got[i]) != math.Float32bits(w) {
				return fmt.Errorf("call %d of seed %d, format %d, %+v, numbers of kind %d: "+
					"word %d is %#x, want %#x", number, x.seed, v.format(), c, kind, i,
					math.Float32bits(got[i]), math.Float32bits(w))
			}
		}
	}
	return nil
}

// numberKinds are the kinds of numbers: ordinary ones, small ones whose products are about the
// least normal number, large ones whose sums overflow, ordinary ones among which are zeros,
// subnormals, infinities and NaN, whatever bits, and zeros, subnormals and ones alone.
const numberKinds = 6

// specials are bfloat16: zeros, subnormals, the least normal number, one, the greatest, infinity,
// and NaN that are quiet or not, with payloads; each of both signs.
var specials = []uint32{0, 1, 0x40, 0x7f, 0x80, 0x3f80, 0x7f7f, 0x7f80, 0x7f81, 0x7fc0, 0x7fe5}

// special draws one of the first n.
func special(r *rand.Rand, n int) uint32 { return specials[r.IntN(n)] | r.Uint32()&0x8000 }

// numbers makes up words of a kind: bytes, extremes among them, or pairs of bfloat16. As sums they
// count, too.
func numbers(r *rand.Rand, v level, kind, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		w := r.Uint32()
		switch {
		case v.bytes():
			if kind == 3 && r.IntN(4) == 0 {
				w = []uint32{0, 0x7f7f7f7f, 0x80808080, 0xffffffff}[r.IntN(4)]
			}
		case kind == 0, kind == 3:
			w = w&0x81ff81ff | 0x3e003e00
		case kind == 1: // 2^-64 to 2^-61, whose products are 2^-128 to 2^-122
			w = w&0x80ff80ff | 0x1f801f80 + w>>8&0x00800080
		case kind == 2:
			w = w&0x80ff80ff | 0x5f005f00
		case kind == 5:
			w = special(r, 6)<<16 | special(r, 6)
		}
		if kind == 3 && !v.bytes() && r.IntN(8) == 0 {
			w = bits.RotateLeft32(w&0xffff|special(r, len(specials))<<16, 16*r.IntN(2))
		}
		x[i] = math.Float32frombits(w)
	}
	return x
}

// faults are ways in which tiles may go wrong, each in one thing alone.
var faults = map[string]func(n int64, c *tileCall, v level, a, b, out []float32){
	"one element of the last of 23 rows": func(_ int64, c *tileCall, v level, a, b, out []float32) {
		c.model(v, a, b, out)
		if c.rows == 23 {
			out[22*c.ldc+tilesNR-1] = flipped(out[22*c.ldc+tilesNR-1])
		}
	},
	"a word behind a row": func(_ int64, c *tileCall, v level, a, b, out []float32) {
		c.model(v, a, b, out)
		if c.ldc > tilesNR {
			out[tilesNR] = flipped(out[tilesNR])
		}
	},
	"rows of A read as if packed": func(_ int64, c *tileCall, v level, a, b, out []float32) {
		packed := *c
		packed.rowA = 0
		packed.model(v, a, b, out)
	},
	"one call in 500 is lost": func(n int64, c *tileCall, v level, a, b, out []float32) {
		if n%500 != 7 {
			c.model(v, a, b, out)
		}
	},
	"the third tile": func(_ int64, c *tileCall, v level, a, b, out []float32) {
		fewer := *c
		fewer.tiles = min(c.tiles, 2)
		fewer.model(v, a, b, out)
	},
	"steps of K beyond 12": func(_ int64, c *tileCall, v level, a, b, out []float32) {
		if c.steps > 12 && c.tiles == 1 {
			fewer := *c
			fewer.steps = 12
			fewer.model(v, a, b, out)
			return
		}
		c.model(v, a, b, out)
	},
	"subnormal results count": perElement(func(sum float32, a, b []uint32) float32 {
		for _, x := range append(a[:len(a):len(a)], b...) {
			if x&0x7f80 == 0 || x&0x7f800000 == 0 {
				return refmath.DotTDPBF16PS(sum, a, b)
			}
		}
		return sum + (fmaOf(a, b, 0) + fmaOf(a, b, 16))
	}),
	"sums of pairs": perElement(func(sum float32, a, b []uint32) float32 {
		for i := range a {
			sum = refmath.DotTDPBF16PS(sum, a[i:i+1], b[i:i+1])
		}
		return sum
	}),
	"subnormal sums count": perElement(func(sum float32, a, b []uint32) float32 {
		s := refmath.DotTDPBF16PS(sum, a, b)
		if math.Float32bits(sum)&0x7f800000 == 0 && s == 0 {
			return sum
		}
		return s
	}),
	"subnormal operands count": perElement(func(sum float32, a, b []uint32) float32 {
		return sum + (fmaOf(a, b, 0) + fmaOf(a, b, 16))
	}),
	"one NaN for all": func(_ int64, c *tileCall, v level, a, b, out []float32) {
		c.model(v, a, b, out)
		for i, x := range out[:tilesNR] {
			if v.pairs() && x != x {
				out[i] = math.Float32frombits(0x7fc00000)
			}
		}
	},
	"the byte -128": func(_ int64, c *tileCall, v level, a, b, out []float32) {
		b = slices.Clone(b)
		for i, x := range b {
			if w := math.Float32bits(x); v == levelTilesU8S8 && w&0xff == 0x80 {
				b[i] = math.Float32frombits(w + 1)
			}
		}
		c.model(v, a, b, out)
	},
}

// flipped has another lowest bit.
func flipped(x float32) float32 { return math.Float32frombits(math.Float32bits(x) ^ 1) }

// fmaOf sums up the even products or the odd ones, with all the range that floats have.
func fmaOf(a, b []uint32, shift int) (sum float32) {
	at := func(w uint32) float64 {
		return float64(math.Float32frombits(w << (16 - shift) & 0xffff0000))
	}
	for i, w := range a {
		sum = float32(at(w)*at(b[i]) + float64(sum))
	}
	return sum
}

// perElement computes elements of bfloat16 one by one, those that are a NaN by the definition.
func perElement(dot func(sum float32, a, b []uint32) float32) func(n int64, c *tileCall, v level,
	a, b, out []float32) {
	return func(_ int64, c *tileCall, v level, a, b, out []float32) {
		if !v.pairs() || c.tiles > 1 || c.rows <= tileRows {
			c.model(v, a, b, out)
			return
		}
		row0, step := c.strides()
		for i := range c.rows {
			for j := range tilesNR {
				var sum float32
				if c.flags&flagAccumulate != 0 {
					sum = out[i*c.ldc+j]
				}
				for s := range c.steps {
					var row, column [tileWords]uint32
					for w := range column {
						row[w] = math.Float32bits(a[i*row0+s*step+w])
						column[w] = math.Float32bits(b[(s*tileWords+w)*tilesNR+j])
					}
					if right := refmath.DotTDPBF16PS(sum, row[:], column[:]); right != right {
						sum = right
						continue
					}
					sum = dot(sum, row[:], column[:])
				}
				out[i*c.ldc+j] = sum
			}
		}
	}
}

// TestTheComparisonFindsFaults holds that what is run where there are tiles would see each of the
// faults, by less than a thousandth of the products that bench/tiles compares, and none where there
// is none.
func TestTheComparisonFindsFaults(t *testing.T) {
	for name, fault := range faults {
		var n atomic.Int64
		x := comparison{calls: 1000, seed: 18, threads: 2,
			run: func(c *tileCall, v level, a, b, out []float32) {
				fault(n.Add(1), c, v, a, b, out)
			}}
		if _, err := x.compare(); err == nil {
			t.Errorf("%s: nothing is found", name)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
	var runs atomic.Int64
	x := comparison{calls: 200, seed: 18, threads: 2, again: 1, signals: true,
		run: func(c *tileCall, v level, a, b, out []float32) {
			runs.Add(1)
			c.model(v, a, b, out)
		}}
	sent, err := x.compare()
	if err != nil || runs.Load() != 400 || runtime.GOOS == "linux" && sent == 0 {
		t.Errorf("the definition: %v; %d runs, %d signals", err, runs.Load(), sent)
	}
}

// TestTilesOfThisProcessor compares the processor's tiles, where it has any, with the definition.
func TestTilesOfThisProcessor(t *testing.T) {
	calls := *compared
	switch err := tilesDoubt(); {
	case err != nil && calls > 0:
		t.Fatal(err)
	case err != nil:
		t.Skip(err)
	case calls == 0:
		calls = 1000
	}
	began := time.Now()
	x := comparison{run: (*tileCall).run, calls: calls, seed: 18, again: 15,
		threads: runtime.GOMAXPROCS(0), signals: true}
	sent, err := x.compare()
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	t.Logf("%d products in %.0f s, 0 differ; %d signals, %.0f a second", calls, took.Seconds(),
		sent, float64(sent)/took.Seconds())
}
