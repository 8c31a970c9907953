package plan

import (
	"fmt"
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/strided"
	"github.com/weirgpu/weir/tensor"
)

// scan plans a Scan (ONNX 9, 11) over inputs of known shape; nil for others, such as version 8,
// which walks a batch too.
func (c *compiler) scan(n *graph.Node) control {
	body, ok := n.Attrs.Body("body").(*graph.Graph)
	ins := n.In[:len(n.In)-n.Captures]
	k := &scanKernel{node: n, walked: int(n.Attrs.Int("num_scan_inputs", 0))}
	k.states = len(ins) - k.walked
	if n.Version < 9 || !ok || k.states < 0 || k.walked < 1 || len(n.Out) < k.states {
		return nil
	}
	formals := k.formals(ins)
	if formals == nil || body.NumFormals() != len(formals) || body.NumOutputs() != len(n.Out) {
		return nil
	}
	p, err := c.body(n, body, formals)
	if err != nil || !k.setBody(p) {
		return nil
	}
	for i, v := range n.Out {
		if t, _ := concrete(p.Graph.Outputs[i].Type); v != nil && !v.Type.Static() {
			shape, _ := t.Ints()
			if i >= k.states {
				shape = slices.Insert(shape, k.to[i-k.states].axis, k.length)
			}
			v.Type = op.Concrete(t.DType, shape...)
		}
	}
	return k
}

// formals returns what the body takes: states as they are and slices of the inputs that are walked;
// nil where the shape of one is not known.
func (k *scanKernel) formals(ins []*graph.Value) (types []op.Type) {
	attrs := k.node.Attrs
	for i, v := range ins {
		if v == nil {
			return nil
		}
		t, ok := concrete(v.Type)
		if !ok {
			return nil
		}
		if i >= k.states {
			shape, _ := t.Ints()
			w := newSlicing(shape, i-k.states, attrs.Ints("scan_input_axes"),
				attrs.Ints("scan_input_directions"))
			k.from = append(k.from, w)
			k.length = shape[w.axis]
			t = op.Concrete(t.DType, w.shape...)
		}
		types = append(types, t)
	}
	return types
}

// setBody takes the plan of the body; false when it has outputs whose shape or memory is not known.
func (k *scanKernel) setBody(p *Plan) (ok bool) {
	k.body = p
	attrs := k.node.Attrs
	for i := range p.Outputs {
		if !p.stackable(i) {
			return false
		}
		if j := i - k.states; j >= 0 {
			slice, _ := p.Graph.Outputs[i].Type.Ints()
			axis := axisAt(attrs.Ints("scan_output_axes"), j, len(slice)+1)
			whole := slices.Insert(slices.Clone(slice), axis, k.length)
			k.to = append(k.to,
				newSlicing(whole, j, attrs.Ints("scan_output_axes"),
					attrs.Ints("scan_output_directions")))
		}
	}
	k.carry, ok = newCarry(p, 0, 0, k.states)
	return ok
}

// slicing is how slices of a tensor follow each other along an axis.
type slicing struct {
	axis, n int
	back    bool
	shape   []int         // of a slice
	whole   strided.Steps // of a slice in the tensor, but for the offset
	alone   strided.Steps // of a slice by itself
	stride  int           // from slice to slice
}

// newSlicing reads the i-th entries of the attributes, by default the first axis and forward. Type
// inference has checked them.
func newSlicing(shape []int, i int, axes, directions []int64) slicing {
	w := slicing{axis: axisAt(axes, i, len(shape)), back: i < len(directions) && directions[i] == 1}
	w.n = shape[w.axis]
	w.shape = slices.Delete(slices.Clone(shape), w.axis, w.axis+1)
	w.whole = strided.RowMajor(shape)
	w.stride = w.whole.Strides[w.axis]
	w.whole.Strides = slices.Delete(slices.Clone(w.whole.Strides), w.axis, w.axis+1)
	w.alone = strided.RowMajor(w.shape)
	return w
}

func axisAt(axes []int64, i, rank int) int {
	axis := 0
	if i < len(axes) {
		axis = int(axes[i])
	}
	if axis < 0 {
		axis += rank
	}
	return axis
}

// at is where slice i lies.
func (w *slicing) at(i int) strided.Steps {
	if w.back {
		i = w.n - 1 - i
	}
	return strided.Steps{Offset: i * w.stride, Strides: w.whole.Strides}
}

// scanKernel runs one plan for every slice.
type scanKernel struct {
	node           *graph.Node
	body           *Plan
	carry          carry
	states, walked int
	length         int
	from, to       []slicing
}

// Name implements Kernel.
func (k *scanKernel) Name() string { return "scan" }

func (k *scanKernel) bodies() []*Plan { return []*Plan{k.body} }

func (k *scanKernel) flops() int64 { return k.body.Flops * int64(k.length) }

// PackedBytes implements Kernel.
func (k *scanKernel) PackedBytes() int { return int(k.body.PackedBytes) }

// ScratchBytes implements Kernel: the body's arena, and state on its way from outputs to
// inputs.
func (k *scanKernel) ScratchBytes(int) int { return int(k.body.ArenaBytes + k.carry.bytes) }

// Pack implements Kernel.
func (k *scanKernel) Pack(dst []byte) { packBodies(k.bodies(), dst) }

// Bind implements Kernel.
func (k *scanKernel) Bind(b compute.Binding) compute.Task {
	n := len(b.In) - k.node.Captures
	return &scanTask{scanKernel: k, in: b.In[:n], out: results(b.Out),
		stage:   b.Scratch[k.body.ArenaBytes:],
		program: bindBody(k.body, b.Scratch[:k.body.ArenaBytes], b.Packed, b.In[n:])}
}

type scanTask struct {
	*scanKernel
	in      []*tensor.Tensor // initial state and what is walked
	out     []compute.Result
	program *Program
	stage   []byte
}

// Run implements Task.
func (t *scanTask) Run(x *compute.Exec) error {
	t.carry.start(t.program, t.in[:t.states])
	for i := range t.length {
		if err := t.iterate(x, i); err != nil {
			return fmt.Errorf("iteration %d: %w", i, err)
		}
	}
	return t.carry.deliver(x, t.program, t.out)
}

// iterate runs the body on slices i, puts its slices in place and hands its state on.
func (t *scanTask) iterate(x *compute.Exec, i int) error {
	r := t.program
	for k := range t.from {
		w := &t.from[k]
		if err := strided.Copy(r.Inputs[t.states+k], w.alone, t.in[t.states+k], w.at(i),
			w.shape); err != nil {
			return err
		}
	}
	if err := r.iteration(x); err != nil {
		return err
	}
	for k := range t.to {
		w, out := &t.to[k], t.out[t.states+k]
		if out.Tensor == nil {
			continue
		}
		if err := strided.Copy(out.Tensor, w.at(i), r.Outputs[t.states+k], w.alone,
			w.shape); err != nil {
			return err
		}
	}
	t.carry.next(r, t.stage)
	return nil
}
