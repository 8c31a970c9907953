package plan

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// TestCompileErrors holds that an error names what failed and what to do.
func TestCompileErrors(t *testing.T) {
	for _, e := range []struct {
		name, body string
		shapes     map[string][]int
		kind       error
		says       []string
	}{
		{"symbol without a size", `input %x: float32[N,4]
			%y = Relu@17 (%x)
			output %y`, nil, ErrShape, []string{`"test"`, `"x"`, "float32[N,4]", "--shape x="}},
		{"size against the symbol's", `input %x: float32[N,4]
			input %y: float32[4,4]
			%z = Add@17 (%x, %y)
			output %z`, map[string][]int{"x": {3, 4}}, nil, []string{"Add"}},
		{"shape of no input", `input %x: float32[N,4]
			output %x`, map[string][]int{"X": {3, 4}}, nil, []string{`"X"`}},
		{"shape of another rank", `input %x: float32[N,4]
			output %x`, map[string][]int{"x": {3}}, nil, []string{`"x"`}},
		{"product that does not fit", `input %x: float32[3,4]
			input %w: float32[N,4]
			%y = MatMul@17 "dense" (%x, %w)
			output %y`, map[string][]int{"w": {7, 4}}, op.ErrInput, []string{`"dense"`, "MatMul"}},
	} {
		t.Run(e.name, func(t *testing.T) {
			_, err := Compile(context.Background(), parse(t, e.body), Options{Target: host,
				Shapes: e.shapes})
			if err == nil || e.kind != nil && !errors.Is(err, e.kind) {
				t.Fatalf("error %v, want one of kind %v", err, e.kind)
			}
			for _, s := range e.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("error %q does not say %q", err, s)
				}
			}
		})
	}
}

func TestUnknownOperator(t *testing.T) {
	g, err := graph.Parse("graph \"test\" {\n opset \"\" 17\n input %x: float32[4]\n %y: " +
		"float32[4] = Frobnicate@17 \"odd\" (%x)\n output %y\n}")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Compile(context.Background(), g, Options{Target: host})
	if !errors.Is(err, op.ErrUnsupported) || !strings.Contains(err.Error(), "Frobnicate") {
		t.Errorf("error %v, want one of kind %v that names the operator", err, op.ErrUnsupported)
	}
}

// TestRunErrors holds that a run that fails names its node, and that the program runs again.
func TestRunErrors(t *testing.T) {
	g := parse(t, `input %i: int64[2]
		const %k: float32[3] = {1, 2, 3}
		%y: float32[2] = Gather@17 "pick" (%k, %i)
		output %y`)
	prog, _ := bindTo(t, compileAs(t, g, Options{Target: host, Threads: threads}))
	pool := newPool(t)
	for i, want := range map[int64]float32{1: 2, 3: 0, -4: 0, -3: 1} {
		set(prog, []*tensor.Tensor{tensor.From([]int64{0, i}, 2)})
		err := prog.Run(exec(pool))
		if bad := want == 0; bad != (err != nil) {
			t.Errorf("index %d: error %v", i, err)
		}
		if err != nil && (!errors.Is(err, op.ErrInput) ||
			!strings.Contains(err.Error(), `"pick"`)) {
			t.Errorf("index %d: error %v, want one of kind %v that names the node", i, err,
				op.ErrInput)
		}
		if err == nil && tensor.As[float32](prog.Outputs[0])[1] != want {
			t.Errorf("index %d gives %v", i, tensor.As[float32](prog.Outputs[0]))
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	x := exec(pool)
	x.Ctx = ctx
	if err := prog.Run(x); !errors.Is(err, context.Canceled) {
		t.Errorf("a run whose context is done: %v", err)
	}
}

// TestMemoryTooSmall holds that a plan refuses a byte less than it asked for.
func TestMemoryTooSmall(t *testing.T) {
	g := parse(t, `input %x: float32[2,40]
		const %w: float32[40,2] = {`+strings.TrimSuffix(strings.Repeat("1, ", 80), ", ")+`}
		%y = MatMul@17 (%x, %w)
		output %y`)
	p := compileAs(t, g, Options{Target: host})
	if p.PackedBytes == 0 || p.ArenaBytes == 0 {
		t.Fatalf("plan of %d and %d bytes", p.PackedBytes, p.ArenaBytes)
	}
	if got, want := p.PeakBytes(3), p.PackedBytes+3*p.ArenaBytes; got != want {
		t.Errorf("three sessions hold %d bytes, want %d", got, want)
	}
	arena, packed := memory(t, p.ArenaBytes), memory(t, p.PackedBytes)
	if err := p.Pack(packed[:len(packed)-1], PackOptions{}); err == nil {
		t.Error("packs into a byte less")
	}
	if _, err := p.Bind(arena[:len(arena)-1], packed); err == nil {
		t.Error("binds to a byte less")
	}
	if _, err := p.Bind(arena, packed[:len(packed)-1]); err == nil {
		t.Error("binds to weights of a byte less")
	}
	steps := 0
	var copied []*tensor.Tensor
	err := p.Pack(packed, PackOptions{Progress: func(done, total int) {
		if steps++; done != steps || total != len(p.Steps) {
			t.Errorf("progress %d of %d", done, total)
		}
	}, Packed: func(c *tensor.Tensor) { copied = append(copied, c) }})
	if len(copied) != 1 || !slices.Equal(copied[0].Shape, []int{40, 2}) {
		t.Errorf("packed %v, want the weights", copied)
	}
	if err != nil || steps != len(p.Steps) {
		t.Errorf("%d calls of progress for %d steps, %v", steps, len(p.Steps), err)
	}
}
