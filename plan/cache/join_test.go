package cache

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/plan"
)

// pair starts two models as one, and closes them.
func pair(t *testing.T, how string, a, b *Model) (out []byte, cached bool) {
	t.Helper()
	defer a.Close()
	defer b.Close()
	m := joined(t, how, a, b)
	return startModel(t, m, plan.Options{Target: host})
}

// joined makes one of two models with an input and an output each.
func joined(t *testing.T, how string, of ...*Model) *Model {
	t.Helper()
	var parts []graph.Part
	var sources []*onnx.Model
	var outputs []string
	for i, m := range of {
		src, err := m.Source()
		if err != nil {
			t.Fatal(err)
		}
		sources, outputs = append(sources, src), append(outputs, fmt.Sprint("out", i))
		parts = append(parts, graph.Part{Name: fmt.Sprint("part", i), Graph: src.Graph,
			Inputs:  map[string]string{src.Graph.Inputs[0].Name: fmt.Sprint("in", i)},
			Outputs: map[string]string{src.Graph.Outputs[0].Name: outputs[i]}})
	}
	g, err := graph.Join("pair", parts, outputs)
	if err != nil {
		t.Fatal(err)
	}
	src, err := onnx.Joined(g, sources...)
	if err != nil {
		t.Fatal(err)
	}
	return Joined(src, how, of...)
}

// TestJoined: the plan of a model that was made of others comes from the cache where neither they
// nor the way have changed, and gives the bits of a start without one.
func TestJoined(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one.onnx"), filepath.Join(dir, "two.onnx")
	smallModel(t, one, 1)
	smallModel(t, two, 2)
	c := newCache(t)
	open := func(c *Cache, path string) *Model {
		m, err := c.Model(path)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	want, _ := pair(t, "a", open(nil, one), open(nil, two))
	start := func(what string, how string, cached bool, a, b *Model) []byte {
		t.Helper()
		out, was := pair(t, how, a, b)
		if was != cached {
			t.Errorf("%s: from the cache: %v", what, was)
		}
		return out
	}
	for i := range 3 {
		if got := start(fmt.Sprint("start ", i), "a", i > 0, open(c, one),
			open(c, two)); !bytes.Equal(got, want) {
			t.Errorf("start %d gives other bits", i)
		}
	}
	start("another way", "b", false, open(c, one), open(c, two))
	for range 2 {
		start("one whose plans are not kept", "a", false, open(c, one), open(nil, two))
	}
	smallModel(t, two, 3) // of the same size
	other := start("another part", "a", false, open(c, one), open(c, two))
	if bytes.Equal(other, want) {
		t.Error("another part gives the bits of the one before")
	}
	if again := start("another part again", "a", true, open(c, one),
		open(c, two)); !bytes.Equal(again, other) {
		t.Error("it gives other bits")
	}
	for i := range 2 {
		a, b := open(c, one), open(c, two)
		inner := joined(t, "a", b)
		start(fmt.Sprint("a joined part ", i), "c", i > 0, a, inner)
		b.Close()
	}
}

// TestJoinedNotKept: nothing is kept of parts that have just been written, nor of such as change
// while they are used.
func TestJoinedNotKept(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one.onnx"), filepath.Join(dir, "two.onnx")
	smallModel(t, one, 1)
	smallModel(t, two, 2)
	c := newCache(t)
	open := func(path string) *Model {
		m, err := c.Model(path)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	late := c.now
	c.now = time.Now
	pair(t, "a", open(one), open(two))
	c.now = late
	a, b := open(one), open(two)
	m := joined(t, "a", a, b)
	smallModel(t, one, 3)
	startModel(t, m, plan.Options{Target: host})
	if err := errors.Join(a.Close(), b.Close()); err != nil {
		t.Error(err)
	}
	if kept := c.files(t, planSuffix); len(kept) > 0 {
		t.Errorf("%v are kept", kept)
	}
}
