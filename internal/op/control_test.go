package op

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// steps is a body made of calls in order: each reads values by number (formals, then captures, then
// the outputs of the calls before) and adds its output.
type steps struct {
	formals int
	calls   []step
	results []int
}

type step struct {
	op    string
	attrs Attrs
	in    []int
}

func (b *steps) NumFormals() int { return b.formals }
func (b *steps) NumOutputs() int { return len(b.results) }

func (b *steps) Infer(in []Type) ([]Type, error) {
	return runSteps(b, in, func(o *Op, c *Call, in []Type) ([]Type, error) {
		return InferTypes(o, c, in, nil)
	})
}

func (b *steps) Eval(ctx context.Context, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return runSteps(b, in, func(o *Op, c *Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		return Run(ctx, o, c, in)
	})
}

func runSteps[T any](b *steps, in []T, run func(*Op, *Call, []T) ([]T, error)) ([]T, error) {
	values := append([]T{}, in...)
	for _, s := range b.calls {
		args := make([]T, len(s.in))
		for i, k := range s.in {
			if k >= len(values) {
				return nil, ErrInput
			}
			args[i] = values[k]
		}
		call := &Call{Type: s.op, Version: latest, Attrs: s.attrs, NumIn: len(args), NumOut: 1}
		o, err := Lookup("", s.op, latest)
		if err != nil {
			return nil, err
		}
		out, err := run(o, call, args)
		if err != nil {
			return nil, err
		}
		values = append(values, out[0])
	}
	out := make([]T, len(b.results))
	for i, k := range b.results {
		if k >= len(values) {
			return nil, ErrInput
		}
		out[i] = values[k]
	}
	return out, nil
}

func ifCall(then, els Body, captures int) *Call {
	return &Call{Type: "If", Version: latest,
		Attrs: Attrs{BodyAttr("then_branch", then), BodyAttr("else_branch", els)},
		NumIn: 1 + captures, NumOut: then.NumOutputs(), Captures: captures}
}

// squeezeOr is what PyTorch makes of x.squeeze(0): Squeeze when the size is one, else x itself.
func squeezeOr() (then, els Body) {
	axis := Attrs{TensorAttr("value", i64(0))}
	return &steps{calls: list(step{"Constant", axis, nil}, step{"Squeeze", nil, list(0, 1)}),
			results: list(2)},
		&steps{calls: list(step{"Identity", nil, list(0)}), results: list(1)}
}

func TestIf(t *testing.T) {
	then, els := squeezeOr()
	call := ifCall(then, els, 1)
	for _, cond := range list(true, false) {
		in := list(tensor.Scalar(cond), seq(1, 2))
		out, err := rawEval(t, call, in)
		if err != nil {
			t.Fatal(err)
		}
		want := seq(1, 2)
		if cond {
			want = seq(2)
		}
		same(t, "If", want, out[0])
		rulesAgree(t, call, in, out)
	}
	if _, err := rawEval(t, call, list(i64(1), seq(1, 2))); !errors.Is(err, ErrInput) {
		t.Errorf("integer condition: %v", err)
	}
	call.NumOut = 2
	if _, err := rawEval(t, call, list(tensor.Scalar(true), seq(1, 2))); !errors.Is(err, ErrAttr) {
		t.Errorf("surplus output: %v", err)
	}
}

func TestIfRule(t *testing.T) {
	then, els := squeezeOr()
	n := Sym("N")
	tests := []struct {
		name string
		cond Type
		x    Type
		want string
	}{
		{"constant true", TypeOf(tensor.Scalar(true)), Ranked(tensor.Float32, Known(1), n),
			"float32[N]"},
		{"constant false", TypeOf(tensor.Scalar(false)), Ranked(tensor.Float32, Known(1), n),
			"float32[1,N]"},
		{"ranks differ", Ranked(tensor.Bool), Ranked(tensor.Float32, Known(1), n), "float32[...]"},
		{"a branch that cannot run", Ranked(tensor.Bool), Ranked(tensor.Float32, Known(3), n),
			"float32[...]"},
		{"a branch not taken", TypeOf(tensor.Scalar(false)), Ranked(tensor.Float32, Known(3), n),
			"float32[3,N]"},
	}
	for _, tt := range tests {
		call := ifCall(then, els, 1)
		out, err := InferTypes(row(t, call), call, list(tt.cond, tt.x), nil)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		} else if out[0].String() != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, out[0], tt.want)
		}
	}
	double := &steps{calls: list(step{"Concat", Attrs{IntAttr("axis", 0)}, list(0, 0)}),
		results: list(1)}
	same := &steps{results: list(0)}
	call := ifCall(double, same, 1)
	out, err := InferTypes(row(t, call), call,
		list(Ranked(tensor.Bool), Ranked(tensor.Float32, n, Sym("C"))), nil)
	if err != nil || out[0].String() != "float32[?,C]" {
		t.Errorf("dimensions differ: %v, %v", out, err)
	}
}

// A size that only a branch knows does not leave it under a name that could mean another size
// outside.
func TestIfKeepsInnerSymbols(t *testing.T) {
	inner := &rule{out: Ranked(tensor.Float32, Sym("x.0"), Sym("N"), Sym("N").MulInt(2))}
	call := ifCall(inner, inner, 1)
	out, err := InferTypes(row(t, call), call,
		list(Ranked(tensor.Bool), Ranked(tensor.Float32, Sym("N"))), nil)
	if err != nil || out[0].String() != "float32[?,N,2·N]" {
		t.Errorf("%v, %v", out, err)
	}
}

// rule is a body of which only the type is known.
type rule struct {
	steps
	out Type
}

func (b *rule) NumOutputs() int              { return 1 }
func (b *rule) Infer([]Type) ([]Type, error) { return list(b.out), nil }

// counter adds the captured value to a carried one and scans out the sums while they are below a
// captured limit.
func counter() *steps {
	return &steps{formals: 3, // iteration, condition, sum; captures: increment, limit
		calls:   list(step{"Add", nil, list(2, 3)}, step{"Less", nil, list(5, 4)}),
		results: list(6, 5, 5)}
}

func loopCall(b Body, in, captures int) *Call {
	return &Call{Type: "Loop", Version: latest, Attrs: Attrs{BodyAttr("body", b)}, NumIn: in,
		NumOut: b.NumOutputs() - 1, Captures: captures}
}

func TestLoop(t *testing.T) {
	f := tensor.Scalar[float32]
	m := tensor.Scalar[int64]
	tests := []struct {
		name    string
		m, cond *tensor.Tensor
		sum     float32
		sums    []float32
	}{
		{"for", m(3), nil, 6, list[float32](2, 4, 6)},
		{"for ignores the condition", m(4), nil, 8, list[float32](2, 4, 6, 8)},
		{"while", nil, tensor.Scalar(true), 6, list[float32](2, 4, 6)},
		{"both", m(2), tensor.Scalar(true), 4, list[float32](2, 4)},
		{"both, condition first", m(math.MaxInt64), tensor.Scalar(true), 6, list[float32](2, 4, 6)},
		{"never", m(3), tensor.Scalar(false), 0, nil},
		{"zero times", m(0), nil, 0, nil},
		{"negative", m(-5), nil, 0, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := list(tt.m, tt.cond, f(0), f(2), f(5))
			call := loopCall(counter(), 5, 2)
			out, err := rawEval(t, call, in)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "sum", f(tt.sum), out[0])
			same(t, "sums", tensor.From(append([]float32{}, tt.sums...), len(tt.sums)), out[1])
			rulesAgree(t, call, in, out)
		})
	}
	call := loopCall(counter(), 5, 2)
	if _, err := rawEval(t, call, list(nil, nil, f(0), f(2), f(5))); !errors.Is(err, ErrInput) {
		t.Errorf("endless loop: %v", err)
	}
}

func TestLoopStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := tensor.Scalar[float32]
	stop := &cancelling{steps: counter(), after: 5, cancel: cancel}
	call := loopCall(stop, 5, 2)
	_, err := Run(ctx, row(t, call), call, list(nil, tensor.Scalar(true), f(0), f(0), f(5)))
	if !errors.Is(err, context.Canceled) || stop.after > 0 {
		t.Errorf("got %v with %d iterations to go", err, stop.after)
	}
}

// cancelling is a body whose caller loses interest after some iterations.
type cancelling struct {
	*steps
	after  int
	cancel func()
}

func (b *cancelling) Eval(ctx context.Context, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if b.after--; b.after == 0 {
		b.cancel()
	}
	return b.steps.Eval(ctx, in)
}

func TestLoopRule(t *testing.T) {
	n := Sym("N")
	grow := &steps{formals: 4, // iteration, condition, a growing list, a fixed one
		calls:   list(step{"Concat", Attrs{IntAttr("axis", 0)}, list(2, 3)}),
		results: list(1, 4, 3, 3)}
	call := loopCall(grow, 4, 0)
	in := list(TypeOf(tensor.Scalar[int64](7)), Type{}, Ranked(tensor.Float32, n, Known(2)),
		Ranked(tensor.Float32, Known(1), Known(2)))
	out, err := InferTypes(row(t, call), call, in, list(true, false, true, true))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range list("float32[?,2]", "float32[1,2]", "float32[7,1,2]") {
		if out[i].String() != want {
			t.Errorf("output %d: %v, want %v", i, out[i], want)
		}
	}
	deeper := &steps{formals: 3,
		calls: list(step{"Constant", Attrs{TensorAttr("value", i64(0))}, nil},
			step{"Unsqueeze", nil, list(2, 3)}),
		results: list(1, 4)}
	call = loopCall(deeper, 3, 0)
	out, err = InferTypes(row(t, call), call,
		list(Ranked(tensor.Int64), Ranked(tensor.Bool), Ranked(tensor.Float32, n)), nil)
	if err != nil || out[0].String() != "float32[...]" {
		t.Errorf("growing rank: %v, %v", out, err)
	}
	casts := &steps{formals: 3, calls: list(step{"Cast", Attrs{IntAttr("to", 7)}, list(2)}),
		results: list(1, 3)}
	call = loopCall(casts, 3, 0)
	if _, err = InferTypes(row(t, call), call,
		list(Ranked(tensor.Int64), Ranked(tensor.Bool), Ranked(tensor.Float32, n)),
		nil); !errors.Is(err, ErrInput) {
		t.Errorf("a carried value that changes type: %v", err)
	}
}

// partialSums adds its scanned input to a state and gives both: Scan's example.
func partialSums() *steps {
	return &steps{formals: 2, calls: list(step{"Add", nil, list(0, 1)}), results: list(2, 2)}
}

func scanCall(b Body, attrs ...Attr) *Call {
	return &Call{Type: "Scan", Version: latest, NumIn: b.NumFormals(), NumOut: b.NumOutputs(),
		Attrs: append(Attrs{BodyAttr("body", b), IntAttr("num_scan_inputs", 1)}, attrs...)}
}

func TestScan(t *testing.T) {
	zero := seq(2)
	zero.Data = make([]byte, 8)
	x := f32([]int{3, 2}, 1, 2, 3, 4, 5, 6)
	tests := []struct {
		name  string
		attrs Attrs
		x     *tensor.Tensor
		want  *tensor.Tensor
	}{
		{"forward", nil, x, f32([]int{3, 2}, 1, 2, 4, 6, 9, 12)},
		{"backward", Attrs{IntsAttr("scan_input_directions", 1)}, x,
			f32([]int{3, 2}, 5, 6, 8, 10, 9, 12)},
		{"output backward", Attrs{IntsAttr("scan_output_directions", 1)}, x,
			f32([]int{3, 2}, 9, 12, 4, 6, 1, 2)},
		{"input axis", Attrs{IntsAttr("scan_input_axes", 1)}, f32([]int{2, 3}, 1, 3, 5, 2, 4, 6),
			f32([]int{3, 2}, 1, 2, 4, 6, 9, 12)},
		{"output axis", Attrs{IntsAttr("scan_output_axes", -1)}, x,
			f32([]int{2, 3}, 1, 4, 9, 2, 6, 12)},
		{"nothing", nil, seq(0, 2), seq(0, 2)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			call, in := scanCall(partialSums(), tt.attrs...), list(zero, tt.x)
			out, err := rawEval(t, call, in)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "scanned", tt.want, out[1])
			rulesAgree(t, call, in, out)
		})
	}
	for name, call := range map[string]*Call{
		"no scan inputs": scanCall(partialSums(), Attr{}),
		"axes":           scanCall(partialSums(), IntsAttr("scan_input_axes", 0, 0)),
		"axis":           scanCall(partialSums(), IntsAttr("scan_output_axes", 2)),
		"direction":      scanCall(partialSums(), IntsAttr("scan_input_directions", 2)),
	} {
		if name == "no scan inputs" {
			call.Attrs = call.Attrs[:1]
		}
		if _, err := rawEval(t, call, list(zero, x)); !errors.Is(err, ErrAttr) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
