package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/cputest"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/zoo"
)

// TestArchitectures holds that the second start of every architecture comes from the cache and
// gives the bits of the first, and of a start without a cache.
func TestArchitectures(t *testing.T) {
	text := zoo.Options{Layers: 2, Hidden: 64, Vocabulary: 100}
	gpt := zoo.Options{Layers: 2, Hidden: 128, Vocabulary: 100}
	for _, a := range []struct {
		name    string
		options zoo.Options
	}{
		{"resnet50", zoo.Options{Layers: 2, Width: 0.125, Resolution: 64, Classes: 10}},
		{"mobilenetv2", zoo.Options{Layers: 2, Width: 0.25, Resolution: 64, Classes: 10}},
		{"yolov8n", zoo.Options{Width: 0.5, Resolution: 64, Classes: 5}},
		{"bert-base", text}, {"minilm-l6", text}, {"gpt2", gpt},
	} {
		t.Run(a.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "model.onnx")
			zooModel(t, path, a.name, a.options)
			for _, p := range []pass.Precision{"", pass.BF16} {
				twice(t, path, plan.Options{Target: host, Passes: pass.Options{Precision: p}})
			}
		})
	}
}

// twice starts a model without a cache, with an empty one and with a full one.
func twice(t *testing.T, path string, o plan.Options) {
	t.Helper()
	want, _ := start(t, nil, path, o)
	c := newCache(t)
	for i := range 3 {
		got, cached := start(t, c, path, o)
		if !bytes.Equal(got, want) {
			t.Errorf("start %d gives other bits than without a cache", i+1)
		}
		if cached != (i > 0) {
			t.Errorf("start %d: from the cache: %v", i+1, cached)
		}
	}
	// Threads are no part of an entry.
	o.Threads = 1
	if _, cached := start(t, c, path, o); !cached {
		t.Error("not found for another number of threads")
	}
}

// TestBodies keeps a plan whose nodes hold graphs, the constants of which passes see at each start.
func TestBodies(t *testing.T) {
	text := `graph "loop" {
  opset "" 17
  input %x: float32[4,64]
  const %n: int64[] = {3}
  const %yes: bool[] = {true}
  const %w: float32[64,64] = at 0
  %a: float32[4,64] = MatMul@13 "outside" (%x, %w)
  %y: float32[4,64] = Loop@16 "loop" (%n, %yes, %a) {body=graph "body" {
    input %i: int64[]
    input %c: bool[]
    input %s: float32[4,64]
    const %v: float32[64,64] = at 0
    %p: float32[4,64] = MatMul@13 "inside" (%s, %v)
    %q: float32[4,64] = Tanh@13 "tanh" (%p)
    output %c
    output %q
  }}
  output %y
}
`
	g := parseWithWeights(t, text)
	path := filepath.Join(t.TempDir(), "model.onnx")
	writeModel(t, path, g, onnx.WriteOptions{})
	twice(t, path, plan.Options{Target: host})
}

// parseWithWeights parses a graph whose weights are made up.
func parseWithWeights(t *testing.T, text string) *graph.Graph {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 4))
	w := make([]float32, 64*64)
	for i := range w {
		w[i] = float32(r.NormFloat64()) / 8
	}
	g, err := graph.ParseExternal(text,
		func(d tensor.DType, shape []int, at int64) (*tensor.Tensor, error) {
			return tensor.From(slices.Clone(w), shape...), nil
		})
	if err == nil {
		err = g.InferTypes()
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestModelChanges holds that a model file never gets the answers of another content, however it
// changed.
func TestModelChanges(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "model.onnx"), filepath.Join(dir, "other.onnx")
	smallModel(t, path, 1)
	smallModel(t, other, 2)
	wantOld, _ := start(t, nil, path, plan.Options{Target: host})
	wantNew, _ := start(t, nil, other, plan.Options{Target: host})
	changed := read(t, other)
	original := read(t, path)
	if len(changed) != len(original) || bytes.Equal(wantOld, wantNew) {
		t.Fatal("the models must differ in their weights alone")
	}
	for name, change := range map[string]func(){
		"written in place, times set back": func() {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			write(t, path, changed)
			if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
				t.Fatal(err)
			}
		},
		"replaced": func() {
			if err := os.Rename(other, path); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCache(t)
			write(t, path, original)
			write(t, other, changed)
			for range 2 {
				if got, _ := start(t, c, path, plan.Options{Target: host}); !bytes.Equal(got,
					wantOld) {
					t.Fatal("wrong outputs before the change")
				}
			}
			change()
			got, cached := start(t, c, path, plan.Options{Target: host})
			if !bytes.Equal(got, wantNew) || cached {
				t.Errorf("from the cache: %v; the new model's outputs: %v", cached,
					bytes.Equal(got, wantNew))
			}
			write(t, path, original) // the old content is known by its hash
			if got, cached := start(t, c, path, plan.Options{Target: host}); !bytes.Equal(got,
				wantOld) ||
				!cached {
				t.Errorf("with the old content again: from the cache: %v; its outputs: %v", cached,
					bytes.Equal(got, wantOld))
			}
			m, err := c.Model(path)
			if err != nil {
				t.Fatal(err)
			}
			if len(m.Graph.Nodes) > 0 {
				t.Error("the model is read again though its content is known")
			}
			m.Close()
		})
	}
}

// TestFreshModel holds that a file whose times might not tell of a second change is not taken for
// known.
func TestFreshModel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	smallModel(t, path, 1)
	c := newCache(t)
	c.now = time.Now
	for range 2 {
		if _, cached := start(t, c, path, plan.Options{Target: host}); cached {
			t.Error("a plan was kept of a file written a moment ago")
		}
	}
	if n := len(c.files(t, "")); n != 0 {
		t.Errorf("%d files were written", n)
	}
}

// TestExternalData changes the weights beside a model.
func TestExternalData(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	var dirs []string
	for seed := range uint64(2) {
		g, err := zoo.New("mobilenetv2",
			zoo.Options{Seed: seed, Layers: 1, Width: 0.25, Resolution: 32, Classes: 10})
		if err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, t.TempDir())
		writeModel(t, filepath.Join(dirs[seed], "model.onnx"), g, onnx.WriteOptions{MaxInline: 1})
	}
	c := newCache(t)
	var outs [][]byte
	for seed, dir := range dirs {
		for _, suffix := range []string{"", ".data"} {
			write(t, path+suffix, read(t, filepath.Join(dir, "model.onnx"+suffix)))
		}
		want, _ := start(t, nil, path, plan.Options{Target: host})
		for i := range 2 {
			got, cached := start(t, c, path, plan.Options{Target: host})
			if !bytes.Equal(got, want) || cached != (i > 0) {
				t.Errorf("seed %d, start %d: right: %v, from the cache: %v", seed, i,
					bytes.Equal(got, want), cached)
			}
		}
		outs = append(outs, want)
	}
	if bytes.Equal(outs[0], outs[1]) {
		t.Error("the weights make no difference")
	}
}

// TestOptionsApart holds that an entry serves no other options than its own.
func TestOptionsApart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	smallModel(t, path, 1)
	c := newCache(t)
	start(t, c, path, plan.Options{Target: host})
	m, err := c.Model(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	src, err := onnx.Open(path, onnx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	if !m.noted || !reflect.DeepEqual(m.Metadata, src.Metadata) || m.Metadata.Graph == "" {
		t.Errorf("noted: %v; it says %+v of itself, the file %+v", m.noted, m.Metadata,
			src.Metadata)
	}
	same := plan.Options{Target: host, Shapes: oneImage, Threads: 2}
	if m.Find(context.Background(), same).Plan == nil {
		t.Fatal("not found under its own options")
	}
	for name, o := range map[string]plan.Options{
		"shape":     {Target: host, Shapes: map[string][]int{"input": {2, 3, 32, 32}}},
		"reference": {Shapes: oneImage},
		"placement": {Target: host, Shapes: oneImage, Placement: 3},
		"state":     {Target: host, Shapes: oneImage, State: &plan.State{}},
		"bound":     {Target: host, Shapes: oneImage, MostArena: 1 << 30},
		"time":      {Target: host, Shapes: oneImage, Recompute: plan.Recompute{MostTime: 2}},
		"off": {Target: host, Shapes: oneImage,
			Passes: pass.Options{Off: []string{"batchnorm"}}},
		"precision": {Target: host, Shapes: oneImage, Passes: pass.Options{Precision: pass.BF16}},
	} {
		if m.Find(context.Background(), o).Plan != nil {
			t.Errorf("%s: found a plan of other options", name)
		}
	}
	elsewhere := same
	elsewhere.Target = kernels.Target(device.Info{Features: []string{"avx9"}})
	if m.Find(context.Background(), elsewhere).Plan != nil {
		t.Error("found a plan of another processor")
	}
	for _, p := range cputest.Paths()[1:] {
		undo := cpuinfo.Limit(p)
		if m.Find(context.Background(), same).Plan != nil {
			t.Errorf("found a plan of other kernels than those of %v", p)
		}
		undo()
	}
	undo := cpuinfo.TilesByDefinition()
	if m.Find(context.Background(), same).Plan != nil {
		t.Error("found a plan of a processor without tiles on one with them")
	}
	undo()
	newer := *c
	newer.build = "another build"
	n, err := newer.Model(path)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if n.Find(context.Background(), same).Plan != nil {
		t.Error("found a plan of another build")
	}
}

// TestAtOnce starts a model many times at once from an empty cache.
func TestAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	smallModel(t, path, 1)
	c := newCache(t)
	const many = 8
	var wg, compiling sync.WaitGroup
	compiling.Add(many)
	for range many {
		wg.Go(func() {
			m, err := c.Model(path)
			if err != nil {
				t.Error(err)
				return
			}
			defer m.Close()
			o := plan.Options{Target: host, Shapes: oneImage}
			compiled, err := m.Compile(t.Context(), o)
			compiling.Done()
			compiling.Wait()
			if err != nil || compiled.Cached() {
				t.Errorf("from the cache: %v; error %v", err == nil && compiled.Cached(), err)
				return
			}
			weights, err := theDevice().Alloc(compiled.Plan.PackedBytes)
			if err != nil {
				t.Error(err)
				return
			}
			defer weights.Free()
			if err := compiled.Plan.Pack(device.HostView(weights), plan.PackOptions{}); err != nil {
				t.Error(err)
			}
			if err := compiled.Save(device.HostView(weights)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	c.only(t, planSuffix)
	if left := c.files(t, tempSuffix); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, cached := start(t, c, path, plan.Options{Target: host}); !cached {
		t.Error("what all of them wrote is not found")
	}
}

// TestBound holds the size of a cache and that it is the entry unused for longest that goes.
func TestBound(t *testing.T) {
	dir := t.TempDir()
	c := newCache(t)
	var size int64
	for i := range 4 {
		path := filepath.Join(dir, fmt.Sprint(i, ".onnx"))
		smallModel(t, path, uint64(i))
		start(t, c, path, plan.Options{Target: host})
		for _, f := range c.files(t, "") {
			info, err := os.Stat(f)
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				size += info.Size()
			}
			if err := os.Chtimes(f, info.ModTime().Add(-time.Minute),
				info.ModTime().Add(-time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
	}
	foreign := filepath.Join(c.dir, "thesis.txt")
	write(t, foreign, make([]byte, 1<<20))
	c.max = 2*size + size/2
	c.trim()
	for i, want := range []bool{false, false, true, true} {
		if _, cached := start(t, c, filepath.Join(dir, fmt.Sprint(i, ".onnx")),
			plan.Options{Target: host}); i > 1 && cached != want {
			t.Errorf("model %d: from the cache: %v", i, cached)
		}
		if i == 1 { // the two starts before were misses, which pushed out the others
			c.max = DefaultMaxBytes
			start(t, c, filepath.Join(dir, "2.onnx"), plan.Options{Target: host})
			start(t, c, filepath.Join(dir, "3.onnx"), plan.Options{Target: host})
		}
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error("a file that is not the cache's is gone")
	}
	c.max = 1
	if _, cached := start(t, c, filepath.Join(dir, "0.onnx"), plan.Options{Target: host}); !cached {
		t.Error("a smaller bound has taken effect before anything was written")
	}
}

// TestNoPlaceToWrite holds that a folder which cannot be written costs nothing but the second
// start.
func TestNoPlaceToWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	smallModel(t, path, 1)
	want, _ := start(t, nil, path, plan.Options{Target: host})
	blocked := filepath.Join(t.TempDir(), "file")
	write(t, blocked, nil)
	readOnly := t.TempDir()
	chmod(t, readOnly, 0o500)
	for name, dir := range map[string]string{"below a file": filepath.Join(blocked, "plans"),
		"a device": "/dev/null", "read-only": "/proc/self", "without the right": readOnly} {
		c := newCache(t)
		if dir == readOnly && c.user == 0 {
			continue // who may write it
		}
		c.dir = dir
		log := c.warnings()
		for range 2 {
			if got, cached := start(t, c, path, plan.Options{Target: host}); cached ||
				!bytes.Equal(got, want) {
				t.Errorf("%s: from the cache: %v; right: %v", name, cached, bytes.Equal(got, want))
			}
		}
		if lines(log) != 1 {
			t.Errorf("%s: want one warning: %s", name, log)
		}
	}
	c := newCache(t)
	start(t, c, path, plan.Options{Target: host})
	if err := roomFor(c.dir, 1<<60); err == nil {
		t.Skip("this system does not tell how much room there is")
	}
	before := len(c.files(t, ""))
	if err := c.write("x", 1<<60, nil); err == nil || len(c.files(t, "")) != before {
		t.Errorf("error %v, %d files; want one, and %d", err, len(c.files(t, "")), before)
	}
}

// TestChangedWhileOpen reads a model's source after its file was changed.
func TestChangedWhileOpen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.onnx")
	smallModel(t, path, 1)
	c := newCache(t)
	want, _ := start(t, c, path, plan.Options{Target: host})
	opened := func() *Model {
		m, err := c.Model(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Graph.Nodes) > 0 {
			t.Error("the model was read though its record is there")
		}
		t.Cleanup(func() { m.Close() })
		return m
	}
	m := opened()
	smallModel(t, path, 2) // by renaming
	src, err := m.Source()
	if err != nil {
		t.Fatalf("after the file was replaced: %v", err)
	}
	p, err := plan.Compile(t.Context(), src.Graph, plan.Options{Target: host, Shapes: oneImage})
	if err != nil {
		t.Fatal(err)
	}
	if got := runPlan(t, p); !bytes.Equal(got, want) {
		t.Error("a replaced file gives the outputs of the new one")
	}
	start(t, c, path, plan.Options{Target: host})
	m = opened()
	write(t, path, read(t, path))
	if _, err := m.Source(); !errors.Is(err, ErrChanged) {
		t.Errorf("after the file was written in place: error %v, want ErrChanged", err)
	}
}

// TestAfterClose asks a closed model for its plan and its source: it gives and holds nothing.
func TestAfterClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	smallModel(t, path, 1)
	c := newCache(t)
	start(t, c, path, plan.Options{Target: host})
	m, err := c.Model(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	o := plan.Options{Target: host, Shapes: oneImage, Threads: 2}
	if found := m.Find(t.Context(), o); found.Plan != nil || found.Cached() {
		t.Error("a closed model has a plan")
	}
	if len(m.mappings) != 0 || len(c.files(t, planSuffix)) != 1 {
		t.Errorf("%d entries are mapped, %v are there", len(m.mappings), c.files(t, planSuffix))
	}
	if _, err := m.Source(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the source of a closed model: error %v", err)
	}
}

// TestLongRecord holds that nothing is written that would be refused for its length.
func TestLongRecord(t *testing.T) {
	c := newCache(t)
	for limit, n := range map[int]int{5: 5, 6: 7} {
		err := c.writeSealed("x"+recordSuffix, recordMagic, limit, make([]byte, n))
		if (err == nil) != (n <= limit) {
			t.Errorf("%d bytes of %d: error %v", n, limit, err)
		}
		if err := os.Remove(filepath.Join(c.dir, "x"+recordSuffix)); (err == nil) != (n <= limit) {
			t.Errorf("%d bytes of %d: removing the file: %v", n, limit, err)
		}
	}
}

// TestMemory holds that a device's limit counts mapped weights.
func TestMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	smallModel(t, path, 1)
	c := newCache(t)
	start(t, c, path, plan.Options{Target: host})
	m, err := c.Model(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	o := plan.Options{Target: host, Shapes: oneImage, Threads: 2}
	compiled := m.Find(context.Background(), o)
	if !compiled.Cached() {
		t.Fatal("not found")
	}
	small, err := cpu.Open("cpu:0", cpu.Options{MemoryBytes: compiled.Plan.PackedBytes - 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := small.Wrap(compiled.Weights); !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("error %v, want %v", err, device.ErrOutOfMemory)
	}
}

// TestEveryOption fails when plans come to depend on an option that entries know nothing of: add it
// to settingKey or to keeps.
func TestEveryOption(t *testing.T) {
	for _, c := range []struct {
		options any
		known   []string
	}{
		{plan.Options{}, []string{"Target", "Shapes", "Threads", "Passes", "Placement",
			"Choices", "State", "Updates", "MostArena", "Recompute"}},
		{pass.Options{}, []string{"Off", "StopAfter", "Dump", "Check", "Portable", "Precision",
			"Features", "Log", "Ahead"}},
	} {
		typ := reflect.TypeOf(c.options)
		for i := range typ.NumField() {
			if f := typ.Field(i); !slices.Contains(c.known, f.Name) {
				t.Errorf("%v has a field %s", typ, f.Name)
			}
		}
	}
	if keeps(plan.Options{Target: host, Passes: pass.Options{Ahead: true}}) {
		t.Error("a plan of a graph that is left for later is kept")
	}
}
