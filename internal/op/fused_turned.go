package op

import (
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// turned reports whether a call of weir:Conv gives weights turned around.
//
//go:noinline
func (c *Call) turned() bool { return c.Type == "Conv" && c.Attrs.Bool("turned", false) }

// turn exchanges the axes of weights that are turned, whose type is the second of in.
func (c *Infer) turn(in []Type) error {
	if !c.turned() || !in[1].Ranked {
		return nil
	}
	w := in[1]
	group, err := c.Group()
	if err != nil || group != 1 || len(w.Shape) < 2 || c.Has(weightScale) {
		return c.Errorf(ErrInput, "input 1 is %v, in %d groups: turned weights have two axes or "+
			"more, one group and no scale", w, group)
	}
	in[1] = w.turned()
	return nil
}

// turned is the type of weights that are turned.
func (w Type) turned() Type {
	return Ranked(w.DType, append([]Dim{w.Shape[1], w.Shape[0]}, w.Shape[2:]...)...)
}

// turnedWeights returns a copy of weights whose first two axes are exchanged and others reversed.
func turnedWeights(c *Call, w *tensor.Tensor) (*tensor.Tensor, error) {
	if w.Rank() < 2 || w.DType.IsContainer() || w.DType == tensor.String {
		return nil, c.Errorf(ErrInput, "input 1 is %v%v, must have two axes to be turned", w.DType,
			w.Shape)
	}
	shape := slices.Clone(w.Shape)
	shape[0], shape[1] = shape[1], shape[0]
	out, err := tensor.New(w.DType, shape...)
	if err != nil {
		return nil, err
	}
	size, rows, taps := w.DType.Size(), w.Shape[1], 1
	for _, n := range w.Shape[2:] {
		taps *= n
	}
	for i := range w.Len() {
		tap, row, column := i%taps, i/taps%rows, i/taps/rows
		to := (row*w.Shape[0]+column)*taps + taps - 1 - tap
		copy(out.Data[to*size:][:size], w.Data[i*size:])
	}
	return out, nil
}

// fusedConvFlops is convFlops of weir:Conv.
func fusedConvFlops(c *Call, in, out []Type) int64 {
	if c.turned() && len(in[1].Shape) > 1 {
		in = []Type{in[0], in[1].turned()}
	}
	return convFlops(c, in, out)
}
