package weir

import (
	"bytes"
	"context"
	"runtime"
	"testing"

	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
)

// TestNothingIsHeldAfterClose counts device memory over runs of several shapes, evictions and open
// results.
func TestNothingIsHeldAfterClose(t *testing.T) {
	on, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	before := on.Device.Held()
	m, err := Load(digits.Model, WithMaxShapes(2))
	if err != nil {
		t.Fatal(err)
	}
	var open []Result
	for n := 1; n <= 4; n++ {
		in := Inputs{
			"image": tensor.From(make([]float32, n*digits.Side*digits.Side), n, 1, digits.Side,
				digits.Side),
		}
		for range 2 {
			r, err := m.Run(context.Background(), in)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, r)
		}
		if n%2 == 0 {
			open[0].Close()
			open = open[1:]
		}
	}
	if on.Device.Held() == before {
		t.Error("open results hold nothing")
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	for _, r := range open {
		r.Close()
	}
	if held := on.Device.Held() - before; held != 0 {
		t.Errorf("%d bytes are held after the last result was closed", held)
	}
}

// TestShapesAreCompiledOnce holds that shapes which come again are not planned again, that what
// does not depend on them is done once for all, and that no more plans are kept than asked for.
func TestShapesAreCompiledOnce(t *testing.T) {
	m, err := Load(digits.Model, WithMaxShapes(3))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	run := func(n int) {
		t.Helper()
		in := Inputs{
			"image": tensor.From(make([]float32, n*digits.Side*digits.Side), n, 1, digits.Side,
				digits.Side),
		}
		r, err := m.Run(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
	}
	for range 5 {
		for n := 1; n <= 3; n++ {
			run(n)
		}
	}
	simplified := m.simplified
	if m.compiled != 3 || simplified == nil || len(simplified.Nodes) >= len(m.graph.Nodes) {
		t.Fatalf("%d plans were made for 3 sets of shapes, the later ones from %v", m.compiled,
			simplified)
	}
	run(4)
	run(1) // 1 was unused for longest and has made room
	run(4)
	if m.compiled != 5 || len(m.variants) != 3 || m.simplified != simplified {
		t.Errorf("%d plans were made, %d are kept", m.compiled, len(m.variants))
	}
}

// TestShapesShareWeights holds that plans for further shapes have no weights of their own on the
// heap, which no account would know of: those of a convolution stay in the model's file, with the
// normalisation behind it.
func TestShapesShareWeights(t *testing.T) {
	g, err := graph.ParseExternal(`graph "normalised" {
		opset "" 17
		input %x: float32[N,1024,1,1]
		const %w: float32[1024,1024,1,1] = at 1
		const %v: float32[1024] = at 2
		%c: float32[N,1024,1,1] = Conv@11 (%x, %w)
		%y: float32[N,1024,1,1] = BatchNormalization@15 (%c, %v, %v, %v, %v)
		output %y
	}`, func(d tensor.DType, shape []int, _ int64) (*tensor.Tensor, error) {
		x, err := tensor.New(d, shape...)
		for i := range tensor.As[float32](x) {
			tensor.As[float32](x)[i] = float32(1+i%7) / 4
		}
		return x, err
	})
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := onnx.Write(&file, g, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	m, err := Load(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	heap := func(n int) int64 {
		x := tensor.From(make([]float32, n<<10), n, 1024, 1, 1)
		r, err := m.Run(t.Context(), Inputs{"x": x})
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		var s runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&s)
		return int64(s.HeapAlloc)
	}
	first := heap(1)
	if more := max(heap(2), heap(3)) - first; more > 1<<20 {
		t.Errorf("two more shapes of a model of 4 MiB leave %d bytes on the heap", more)
	}
	runtime.KeepAlive(m)
}
