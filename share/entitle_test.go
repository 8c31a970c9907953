package share_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/share"
)

func TestEntitle(t *testing.T) {
	// c is weight, guarantee, limit, demand.
	type c = share.Claim
	for _, tc := range []struct {
		name   string
		claims []share.Claim
		want   []float64
	}{
		{"nobody", nil, nil},
		{"alone", []c{{0.3, 0.3, 1, 1}}, []float64{1}},
		{"alone with limit", []c{{0.3, 0.3, 0.4, 1}}, []float64{0.4}},
		{"by weight", []c{{0.3, 0.3, 1, 1}, {0.1, 0.1, 1, 1}}, []float64{0.75, 0.25}},
		{"limit lends", []c{{0.5, 0.5, 0.5, 1}, {0.1, 0, 1, 1}, {0.3, 0, 1, 1}},
			[]float64{0.5, 0.125, 0.375}},
		{"demand lends", []c{{0.5, 0.5, 1, 0.2}, {0.1, 0, 1, 1}, {0.3, 0, 1, 1}},
			[]float64{0.2, 0.2, 0.6}},
		{"guarantee holds against weights", []c{{0.3, 0.3, 1, 1}, {1, 0, 1, 1}, {1, 0, 1, 1}},
			[]float64{0.3, 0.35, 0.35}},
		{"whole device promised", []c{{1, 1, 1, 1}, {0.1, 0, 1, 1}}, []float64{1, 0}},
		{"promised and not wanted", []c{{1, 1, 1, 0.6}, {0.1, 0, 1, 1}}, []float64{0.6, 0.4}},
		{"all at their limits", []c{{0.1, 0.1, 0.2, 1}, {0.1, 0.1, 0.3, 1}}, []float64{0.2, 0.3}},
		{"floor and ceiling at once", []c{{0.1, 0.4, 1, 1}, {0.8, 0, 0.2, 1}, {0.1, 0, 1, 1}},
			[]float64{0.4, 0.2, 0.4}},
		{"over-promised", []c{{0.8, 0.8, 1, 1}, {0.8, 0.8, 1, 1}}, []float64{0.5, 0.5}},
		{"no demand", []c{{0.5, 0.5, 1, 0}, {0.5, 0.5, 1, 1}}, []float64{0, 1}},
	} {
		got := make([]float64, len(tc.claims))
		share.Entitle(tc.claims, got)
		for i := range got {
			if math.Abs(got[i]-tc.want[i]) > 1e-12 {
				t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
				break
			}
		}
	}
}

// level finds the allocation by halving the water level: the definition, without the shortcuts.
func level(claims []share.Claim) []float64 {
	at := func(l float64) (out []float64, sum float64) {
		for _, c := range claims {
			hi := max(0, min(c.Limit, c.Demand))
			x := min(hi, max(min(c.Guarantee, hi), l*c.Weight))
			out = append(out, x)
			sum += x
		}
		return out, sum
	}
	lo, hi := 0.0, 1e6
	for range 200 {
		mid := (lo + hi) / 2
		if _, sum := at(mid); sum > 1 {
			hi = mid
		} else {
			lo = mid
		}
	}
	out, _ := at(lo)
	return out
}

func TestEntitleAgainstDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 20000 {
		claims := make([]share.Claim, 1+r.IntN(8))
		free := 1.0
		for i := range claims {
			g := r.Float64() * free * float64(r.IntN(2))
			free -= g
			limit := 1.0
			if r.IntN(2) == 0 {
				limit = g + (1-g)*r.Float64() + 1e-3
			}
			claims[i] = share.Claim{Weight: 0.01 + r.Float64(), Guarantee: g, Limit: limit,
				Demand: 1}
			if r.IntN(3) == 0 {
				claims[i].Demand = r.Float64()
			}
		}
		got, want := make([]float64, len(claims)), level(claims)
		share.Entitle(claims, got)
		for i := range got {
			if math.Abs(got[i]-want[i]) > 1e-6 {
				t.Fatalf("case %d: %+v:\n got %v\nwant %v", n, claims, got, want)
			}
		}
	}
}

func TestEntitleAllocatesNothing(t *testing.T) {
	claims := []share.Claim{{Weight: 0.3, Guarantee: 0.3, Limit: 1, Demand: 1},
		{Weight: 0.1, Limit: 0.2, Demand: 1}, {Weight: 0.1, Limit: 1, Demand: 1}}
	out := make([]float64, 3)
	if n := testing.AllocsPerRun(100, func() { share.Entitle(claims, out) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
