package cache

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/plan"
)

// wideModel writes a model that keeps a wide value for a late reader, which a smaller plan computes
// again, and has weights.
func wideModel(t *testing.T, path string) {
	t.Helper()
	g, err := graph.Parse(`graph "wide" {
	opset "" 17
	input %x: float32[1,256]
	const %to: int64[2] = {256, 256}
	const %k: float32[256,256] = {` + strings.Repeat("0.5, ", 256*256-1) + `0.5}
	%a = Expand@13 (%x, %to)
	%b = Softmax@13 (%a) {axis=0}
	%c = Softmax@13 (%b) {axis=1}
	%d = MatMul@13 (%c, %k)
	%e = MatMul@13 (%d, %b)
	%y = Add@14 (%e, %a)
	output %y
}`)
	if err != nil {
		t.Fatal(err)
	}
	writeModel(t, path, g, onnx.WriteOptions{})
}

// TestBounded: a plan under a bound on its arena is kept like others, found for the same bound and
// number of threads and no other, has the bound again, and computes the same bits.
func TestBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	wideModel(t, path)
	c := newCache(t)
	o := plan.Options{Target: host, Threads: 1, Shapes: map[string][]int{"x": {1, 256}}}
	whole := func() *Compiled {
		m, err := c.Model(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		p, err := m.Compile(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := whole()
	want, _ := start(t, c, path, o)
	if !whole().Cached() {
		t.Fatal("the plan without a bound is not kept")
	}
	most := first.Plan.PeakBytes(1) - 200<<10 // of 256 KiB that %a takes
	under := first.Options
	if !first.Plan.Smaller(&under, most) {
		t.Fatalf("%d bytes are within %d", first.Plan.PeakBytes(1), most)
	}
	for i := range 2 {
		got, cached := start(t, c, path, under)
		if cached != (i > 0) || !bytes.Equal(got, want) {
			t.Errorf("time %d: from the cache %t, right bits %t", i+1, cached,
				bytes.Equal(got, want))
		}
	}
	// the smaller plan is what one without a bound is made into, and what one of the cache is
	for _, c := range []*Compiled{first, whole()} {
		w := c.Within(t.Context(), most)
		if !w.Cached() || w.Plan.PeakBytes(1) > most {
			t.Errorf("within %d bytes: cached %t, %d bytes", most, w.Cached(), w.Plan.PeakBytes(1))
		}
	}
	if w := whole().Within(t.Context(), 1000); w.Plan.PeakBytes(1) != first.Plan.PeakBytes(1) {
		t.Errorf("where no plan is small enough there is one of %d bytes", w.Plan.PeakBytes(1))
	}
	for what, change := range map[string]func(o *plan.Options){
		"threads": func(o *plan.Options) { o.Threads = 2 },
		"bound":   func(o *plan.Options) { o.MostArena++ },
	} {
		o := under
		if change(&o); whole().model.Find(t.Context(), o).Plan != nil {
			t.Errorf("found a plan for another %s", what)
		}
	}
}
