package cache

import (
	"bytes"
	"context"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/zoo"
)

// host is this machine's CPU, whose products of bfloat16 are taken to be fast on any.
var host compute.Target = halving{kernels.Target(device.Info{})}

type halving struct{ compute.Target }

func (h halving) Features() compute.Features {
	f := h.Target.Features()
	f.BF16 = true
	return f
}

// newCache is a cache in an empty folder, for which every file has been written long ago.
func newCache(t testing.TB) *Cache {
	t.Helper()
	c, err := Open(Options{Dir: filepath.Join(t.TempDir(), "plans")})
	if err != nil {
		t.Fatal(err)
	}
	c.now = func() time.Time { return time.Now().Add(time.Minute) }
	return c
}

// smallModel writes a small residual network, whose weights a seed decides.
func smallModel(t testing.TB, path string, seed uint64) {
	t.Helper()
	zooModel(t, path, "resnet50",
		zoo.Options{Seed: seed, Layers: 1, Width: 0.125, Resolution: 32, Classes: 10})
}

// oneImage is the shape of its input.
var oneImage = map[string][]int{"input": {1, 3, 32, 32}}

func zooModel(t testing.TB, path, name string, o zoo.Options) {
	t.Helper()
	g, err := zoo.New(name, o)
	if err != nil {
		t.Fatal(err)
	}
	writeModel(t, path, g, onnx.WriteOptions{})
}

func writeModel(t testing.TB, path string, g *graph.Graph, o onnx.WriteOptions) {
	t.Helper()
	if err := onnx.WriteFile(path, g, o); err != nil {
		t.Fatal(err)
	}
}

// theDevice is the device of all tests of this package, and thePools its pools by their threads.
var (
	theDevice = sync.OnceValue(func() *cpu.Device {
		d, err := cpu.Open("cpu:0", cpu.Options{})
		if err != nil {
			panic(err)
		}
		return d
	})
	thePools = sync.OnceValue(func() []*cpu.Pool {
		var pools []*cpu.Pool
		for n := range 3 {
			pools = append(pools, cpu.NewPool(cpu.PoolOptions{Threads: max(1, n)}))
		}
		return pools
	})
)

// start does what the start of a program does: it opens a model, runs it once on the same inputs as
// every other start, and keeps the plan.
func start(t testing.TB, c *Cache, path string, o plan.Options) (out []byte, cached bool) {
	t.Helper()
	m, err := c.Model(path)
	if err != nil {
		t.Fatal(err)
	}
	return startModel(t, m, o)
}

// startModel is start of a model that is open, and closes it.
func startModel(t testing.TB, m *Model, o plan.Options) (out []byte, cached bool) {
	t.Helper()
	defer func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}()
	if o.Shapes == nil {
		o.Shapes = map[string][]int{}
		for _, v := range m.Graph.Inputs {
			shape := make([]int, len(v.Type.Shape))
			for i, d := range v.Type.Shape {
				if n, ok := d.Int(); ok {
					shape[i] = n
				} else {
					shape[i] = i + 1
				}
			}
			o.Shapes[v.Name] = shape
		}
	}
	if o.Threads == 0 {
		o.Threads = 2
	}
	compiled, err := m.Compile(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := engine.Load(compiled.Plan,
		engine.Options{Device: theDevice(), Pool: thePools()[o.Threads], Weights: compiled.Weights})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if held := theDevice().Held(); held != compiled.Plan.PackedBytes {
		t.Errorf("%d bytes of weights are held, want %d", held, compiled.Plan.PackedBytes)
	}
	out = firstOutputs(t, s)
	if err := s.WithWeights(t.Context(), compiled.Save); err != nil {
		t.Logf("not kept: %v", err)
	}
	return out, compiled.Cached()
}

// firstOutputs runs a session on inputs that a seed decides, and returns the bytes of the outputs.
func firstOutputs(t testing.TB, s *engine.Session) []byte {
	t.Helper()
	i, err := s.Take()
	if err != nil {
		t.Fatal(err)
	}
	defer i.Put()
	r := rand.New(rand.NewPCG(1, 2))
	for _, x := range i.Inputs() {
		for k := range x.Len() {
			switch x.DType {
			case tensor.Float32:
				tensor.As[float32](x)[k] = r.Float32()
			case tensor.Int64:
				tensor.As[int64](x)[k] = r.Int64N(2)
			}
		}
	}
	if err := i.Run(context.Background(), device.Open); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, y := range i.Outputs() {
		b.WriteString(y.String())
		b.Write(y.Data)
	}
	return b.Bytes()
}

// files lists the files of a cache with a suffix.
func (c *Cache) files(t testing.TB, suffix string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, suffix) {
			names = append(names, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// only is the one file with a suffix.
func (c *Cache) only(t testing.TB, suffix string) string {
	t.Helper()
	names := c.files(t, suffix)
	if len(names) != 1 {
		t.Fatalf("%d files *%s in the cache, want one: %v", len(names), suffix, names)
	}
	return names[0]
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// runPlan runs a plan on the inputs of every start.
func runPlan(t testing.TB, p *plan.Plan) []byte { return runCompiled(t, &Compiled{Plan: p}) }

// runCompiled is runPlan for a plan that may have come from the cache.
func runCompiled(t testing.TB, c *Compiled) []byte {
	t.Helper()
	s, err := engine.Load(c.Plan, engine.Options{Device: theDevice(),
		Pool: thePools()[c.Plan.Threads], Weights: c.Weights})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return firstOutputs(t, s)
}

// verify compares an entry with its checksums, by so many goroutines beside the caller.
func (e *entry) verify(helpers int, known bool) error {
	c := check{entry: e, known: known}
	c.begin(helpers)
	return c.end()
}
