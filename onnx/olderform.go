package onnx

import (
	"fmt"
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// older describes a change of an operator at one version of ONNX's operator set, and how to rewrite
// a node from the form before that version to the form since.
type older struct {
	before int
	raise  func(*raiser, *graph.Node) error
}

// olderForms are the operators of opset 1 to 6 whose meaning a later version kept but expresses in
// another form (ONNX, Changelog.md, versions 1 to 7 of each).
var olderForms = map[string]older{
	"Concat": {4, (*raiser).concatAxis}, "Pad": {2, (*raiser).paddings},
	"Reshape": {5, (*raiser).reshapeAttr}, "Selu": {6, (*raiser).seluDefaults},
	"Split": {2, (*raiser).splitInput},
	"Tile":  {6, (*raiser).tileAxis}, "Upsample": {7, (*raiser).upsampleScales},
}

// reform brings a node to the next form of its operator.
func (r *raiser) reform(n *graph.Node) error {
	n.Attrs = slices.DeleteFunc(n.Attrs, func(a op.Attr) bool {
		return a.Name == "consumed_inputs"
	})
	f, ok := olderForms[n.Type]
	if !ok || n.Version >= f.before {
		return nil
	}
	if err := f.raise(r, n); err != nil {
		return err
	}
	n.Version = f.before
	return nil
}

// setAttr puts an attribute in the place of the one of that name, if any.
func setAttr(n *graph.Node, a op.Attr) {
	dropAttr(n, a.Name)
	n.Attrs = append(n.Attrs, a)
}

func dropAttr(n *graph.Node, name string) {
	n.Attrs = slices.DeleteFunc(n.Attrs, func(a op.Attr) bool { return a.Name == name })
}

// concatAxis: attribute axis was 1 by default.
func (r *raiser) concatAxis(n *graph.Node) error {
	setAttr(n, op.IntAttr("axis", n.Attrs.Int("axis", 1)))
	return nil
}

// paddings: attribute pads had another name.
func (r *raiser) paddings(n *graph.Node) error {
	v := n.Attrs.Ints("paddings")
	if v == nil {
		return formatErr("attribute paddings is required in opset %d", n.Version)
	}
	dropAttr(n, "paddings")
	setAttr(n, op.IntsAttr("pads", v...))
	return nil
}

// reshapeAttr: the shape was an attribute.
func (r *raiser) reshapeAttr(n *graph.Node) error {
	v := n.Attrs.Ints("shape")
	if v == nil || len(n.In) != 1 {
		return formatErr("opset %d wants one input and attribute shape", n.Version)
	}
	dropAttr(n, "shape")
	n.In = append(n.In, r.constant(n.Name+"_shape", v))
	return nil
}

// constant makes a constant vector.
func (r *raiser) constant(name string, v []int64) *graph.Value {
	return graph.NewConst(r.b.fresh(name), tensor.From(slices.Clone(v), len(v)))
}

// seluDefaults: the defaults had fewer digits.
func (r *raiser) seluDefaults(n *graph.Node) error {
	setAttr(n, op.FloatAttr("alpha", n.Attrs.Float("alpha", 1.6732)))
	setAttr(n, op.FloatAttr("gamma", n.Attrs.Float("gamma", 1.0507)))
	return nil
}

// splitInput: the lengths could also be an input.
func (r *raiser) splitInput(n *graph.Node) error {
	if len(n.In) < 2 || n.In[1] == nil {
		n.In = n.In[:min(len(n.In), 1)]
		return nil
	}
	v, err := constantInts(n, 1)
	if err != nil {
		return err
	}
	setAttr(n, op.IntsAttr("split", v...))
	n.In = n.In[:1]
	return nil
}

// constantInts returns the integers of input i. The older form may compute them; here they must be
// a constant, of any numeric type, since the newer form is made from their values.
func constantInts(n *graph.Node, i int) ([]int64, error) {
	c := n.In[i].Const()
	if c == nil || !n.In[i].IsConst() {
		return nil, fmt.Errorf("%w: input %d of opset %d must be constant; convert the model with "+
			"ONNX's version converter",
			op.ErrUnsupported, i, n.Version)
	}
	if v, err := c.Ints(); err == nil {
		return v, nil
	}
	f, err := c.Floats()
	if err != nil {
		return nil, formatErr("input %d: %v", i, err)
	}
	v := make([]int64, len(f))
	for k, x := range f {
		v[k] = int64(x)
	}
	return v, nil
}

// tileAxis: inputs were the number of copies and the axis.
func (r *raiser) tileAxis(n *graph.Node) error {
	if len(n.In) != 3 || slices.Contains(n.In, nil) {
		return formatErr("opset %d wants inputs input, tiles and axis", n.Version)
	}
	tiles, err := constantInts(n, 1)
	if err != nil {
		return err
	}
	axis, err := constantInts(n, 2)
	if err != nil {
		return err
	}
	x := n.In[0].Type
	if !x.Ranked {
		return fmt.Errorf("%w: Tile of opset %d needs a known rank; convert the model with ONNX's "+
			"version converter", op.ErrUnsupported, n.Version)
	}
	rank := int64(len(x.Shape))
	if len(tiles) != 1 || len(axis) != 1 || axis[0] < -rank || axis[0] >= rank {
		return formatErr("tiles %v along axis %v of rank %d", tiles, axis, rank)
	}
	repeats := slices.Repeat([]int64{1}, int(rank))
	repeats[(axis[0]+rank)%rank] = tiles[0]
	n.In = []*graph.Value{n.In[0], r.constant(n.Name+"_repeats", repeats)}
	return nil
}

// upsampleScales: the scales of height and width were attributes of their own, and images the only
// inputs.
func (r *raiser) upsampleScales(n *graph.Node) error {
	if !n.Attrs.Has("height_scale") || !n.Attrs.Has("width_scale") {
		return formatErr("attributes height_scale and width_scale are required in opset %d",
			n.Version)
	}
	setAttr(n, op.FloatsAttr("scales", 1, 1, n.Attrs.Float("height_scale", 1),
		n.Attrs.Float("width_scale", 1)))
	dropAttr(n, "height_scale")
	dropAttr(n, "width_scale")
	if n.Attrs.String("mode", "nearest") == "bilinear" {
		setAttr(n, op.StringAttr("mode", "linear"))
	}
	return nil
}

// batchNorm: attribute is_test told inference from training, which version 7 tells by the number of
// outputs and version 14 by an attribute.
func (r *raiser) batchNorm(n *graph.Node) error {
	inference := n.Attrs.Bool("is_test", false)
	switch {
	case inference && len(n.Out) > 1:
		return fmt.Errorf("%w: statistics of inference in opset %d; export the model with one "+
			"output of BatchNormalization", op.ErrUnsupported, n.Version)
	case inference || len(n.Out) > 1:
		return nil
	case !n.Attrs.Bool("spatial", true):
		return fmt.Errorf("%w: training by activations without statistics in opset %d; export the "+
			"model for inference", op.ErrUnsupported, n.Version)
	}
	dropAttr(n, "spatial")
	setAttr(n, op.IntAttr("training_mode", 1))
	n.Version = 14
	return nil
}
