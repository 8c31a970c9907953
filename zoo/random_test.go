package zoo

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"runtime"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
)

// weightHash hashes all constants with their names.
func weightHash(g *graph.Graph) string {
	h := sha256.New()
	for _, v := range g.Constants() {
		h.Write([]byte(v.Name))
		h.Write(v.Const().Data)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// TestSameEverywhere holds the weights against hashes that every platform must reproduce, whatever
// its compiler fuses and however many goroutines fill them.
func TestSameEverywhere(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"mobilenetv2", Options{Seed: 1}, "726e2e66d3370603"},
		{"yolov8n", Options{Seed: 7, Width: 0.5}, "28dad5e79269e678"},
		{"minilm-l6", Options{Layers: 2, Vocabulary: 1000}, "78ff059c4765ec5b"},
		{"gpt2", Options{Seed: math.MaxUint64, Layers: 1, Hidden: 128, Vocabulary: 1000},
			"55914c7edd63bd10"},
	} {
		for _, procs := range []int{1, 3} {
			runtime.GOMAXPROCS(procs)
			g, err := New(c.name, c.o)
			if err != nil {
				t.Fatal(err)
			}
			if h := weightHash(g); h != c.want {
				t.Errorf("%s %+v on %d processors: weights %s, want %s", c.name, c.o, procs, h,
					c.want)
			}
		}
	}
}

// TestDistinct checks that every weight is a draw of its own: no two of a network, and none of two
// seeds, are equal.
func TestDistinct(t *testing.T) {
	seen := map[string]string{}
	for _, seed := range []uint64{0, 1, 1 << 63} {
		g, err := New("bert-base", Options{Seed: seed, Layers: 2, Hidden: 64, Vocabulary: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range g.Constants() {
			if v.Const().DType != tensor.Float32 || v.Const().Len() == 1 {
				continue
			}
			data := string(v.Const().Data[:64])
			if w := seen[data]; w != "" {
				t.Errorf("%s of seed %d starts like %s", v.Name, seed, w)
			}
			seen[data] = v.Name
		}
	}
}

// TestMoments holds the distributions against what they claim, over a weight of several blocks, and
// neighbours against independence.
func TestMoments(t *testing.T) {
	const n = 5*blockLen + 17
	for _, c := range []struct {
		name           string
		d              distribution
		mean, variance float64
		lo, hi         float64
	}{
		{"normal", normal(0.5), 0, 0.25, -0.5 * 2 * math.Sqrt(3), 0.5 * 2 * math.Sqrt(3)},
		{"uniform", uniform(0.8, 1.2), 1, 0.16 / 12, 0.8, 1.2},
	} {
		e := newBuilder("test", 9)
		w := e.param("weight", c.d, n)
		if err := e.fillAll(); err != nil {
			t.Fatal(err)
		}
		v := tensor.As[float32](w.Const())
		var sum, square, next, block float64
		for i, f := range v {
			x := float64(f) - c.mean
			if float64(f) < c.lo-1e-6 || float64(f) > c.hi+1e-6 {
				t.Fatalf("%s: element %d is %g, outside [%g, %g]", c.name, i, f, c.lo, c.hi)
			}
			sum += x
			square += x * x
			next += x * (float64(v[(i+1)%n]) - c.mean)
			block += x * (float64(v[(i+blockLen)%n]) - c.mean)
		}
		// Five standard errors of a mean of n: sqrt(variance/n), and of products of two independent
		// elements.
		tolerance := 5 / math.Sqrt(n)
		if m := sum / n; math.Abs(m) > tolerance*math.Sqrt(c.variance) {
			t.Errorf("%s: mean is off by %g", c.name, m)
		}
		if s := square / n; math.Abs(s/c.variance-1) > 1.5*tolerance {
			t.Errorf("%s: variance %g, want %g", c.name, s, c.variance)
		}
		for what, p := range map[string]float64{"next element": next,
			"same place of the next block": block} {
			if r := p / n / c.variance; math.Abs(r) > tolerance {
				t.Errorf("%s: correlation %g with the %s", c.name, r, what)
			}
		}
	}
}

func BenchmarkNew(b *testing.B) {
	for _, name := range Names() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				g, err := New(name, Options{})
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(4 * Parameters(g)))
			}
		})
	}
}
