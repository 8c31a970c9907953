package engine

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/far"
	"github.com/weirgpu/weir/plan"
)

// TestGroupsByRuns: groups go by how long iterations took whose weights were there. Where computing
// is nothing beside the bus, all but the last bytes come at once, and where the bus is nothing, the
// first ones come alone; a model that has not run has groups too. Iterations that are a little
// shorter, or longer, or wait for weights, make no others.
func TestGroupsByRuns(t *testing.T) {
	bus := device.Bus{BytesPerS: 1e9, PerTransfer: time.Microsecond}
	d, err := far.Open("far", far.Options{Bus: bus})
	if err != nil {
		t.Fatal(err)
	}
	c := place{"far", d, d.Target(), true}
	b := newBench(t)
	p := c.compile(t, tower(t, rand.New(rand.NewPCG(13, 9)), len(followers)), 1)
	s, err := Load(p, c.options(t, b, p))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	borders := p.Borders()
	if len(borders) < 3 {
		t.Fatalf("%d borders", len(borders))
	}
	transfer := bus.Transfer(p.PackedBytes)
	short, long := s.groups(transfer/1000), s.groups(1000*transfer)
	if n := len(short); n > 2 || short[n-1] != p.PackedBytes {
		t.Errorf("computing takes a thousandth: groups to %v of %d", short, p.PackedBytes)
	}
	if n := len(long); n < 2 || long[0] != borders[0] || long[n-1] != p.PackedBytes {
		t.Errorf("computing takes a thousand times as long: groups to %v, borders %v", long,
			borders)
	}
	if all := s.groups(0); len(all) == 0 || all[len(all)-1] != p.PackedBytes {
		t.Errorf("nothing has run: groups to %v", all)
	}

	var cuts cuts
	same := func(what string, want []int64) {
		t.Helper()
		if got := cuts.of(s); !slices.Equal(got, want) {
			t.Errorf("%s: groups to %v, want %v", what, got, want)
		}
	}
	same("nothing has run", s.groups(0))
	s.ran(1000 * transfer)
	same("one long iteration", long)
	s.ran(999 * transfer)
	s.ran(2000 * transfer)
	if cuts.of(s); cuts.took != 1000*transfer {
		t.Errorf("groups for iterations of %v, wanted those of %v", cuts.took, 1000*transfer)
	}
	s.ran(transfer / 1000)
	same("a short iteration", short)
}

// TestRunsNoted: only iterations whose weights are there say how long one takes. Weights that are
// brought come once the iteration waits for them: otherwise all could be there when it begins.
func TestRunsNoted(t *testing.T) {
	b := newBench(t)
	for _, c := range places(t) {
		p := c.compile(t, tower(t, rand.New(rand.NewPCG(13, 10)), 2), 1)
		s, err := Load(p, c.options(t, b, p))
		if err != nil {
			t.Fatal(err)
		}
		w := s.packed
		w.bring = func() {
			for waited := false; !waited; runtime.Gosched() {
				w.mu.Lock()
				waited = len(w.waiting) > 0
				w.mu.Unlock()
			}
			w.serve()
		}
		s.Evict(p.PackedBytes)
		if _, err := run(t.Context(), s, 1); err != nil {
			t.Fatal(err)
		}
		if took := s.least.Load(); took != 0 {
			t.Errorf("%s: an iteration that waited for weights counts: %d ns", c.name, took)
		}
		if _, err := run(t.Context(), s, 1); err != nil {
			t.Fatal(err)
		}
		if s.least.Load() <= 0 {
			t.Errorf("%s: an iteration was not noted", c.name)
		}
		s.Close()
	}
}

// TestSurest: where a first layer is thought to hide the transfer of many others, they come in more
// groups than by the model, and nothing more is exposed should all be computed a third faster, by
// which the model alone has a transfer waited for that is many times as long; and where more groups
// cost more than a part of what is exposed, there are no more.
func TestSurest(t *testing.T) {
	const faster = 4.0 / 3
	bus := device.Bus{BytesPerS: 1e9, PerTransfer: 10 * time.Microsecond}
	layers := func(first, rest time.Duration, bytes int64, n int) func(float64) []plan.Layer {
		return func(faster float64) (all []plan.Layer) {
			for i := range n {
				l := plan.Layer{Bytes: bytes, Compute: rest}
				if i == 0 {
					l = plan.Layer{Bytes: 20_000, Compute: first}
				}
				l.Compute = time.Duration(float64(l.Compute) / faster)
				all = append(all, l)
			}
			return all
		}
	}
	hides := layers(30*time.Millisecond, 10*time.Millisecond, 1_000_000, 60)
	thought, least := plan.Pipeline(bus, hides(1))
	for _, l := range hides(1) {
		least -= l.Compute
	}
	sure := surest(bus, hides)
	if lost := plan.Exposed(bus, hides(faster), thought); lost < 10*least {
		t.Errorf("by the model alone %v are exposed, at least %v", lost, least)
	}
	for _, as := range []float64{1, faster, 2} {
		if got := plan.Exposed(bus, hides(as), sure); got > least+least/32 {
			t.Errorf("%v times as fast: %v are exposed, at least %v", as, got, least)
		}
	}
	tight := layers(45*time.Microsecond, 45*time.Microsecond, 40_000, 40)
	thought, _ = plan.Pipeline(bus, tight(1))
	best := plan.Exposed(bus, tight(1), thought)
	if got := plan.Exposed(bus, tight(1), surest(bus, tight)); got > best+best/32 {
		t.Errorf("%v are exposed by the model, at least %v", got, best)
	}
}
