package main

import (
	"context"
	"errors"
	"os"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/tensor/npy"
	"github.com/weirgpu/weir/train/data"
)

// write writes a file of numbers.
func (b *bench) write(name string, t *tensor.Tensor) error {
	f, err := os.Create(b.path(name))
	if err != nil {
		return err
	}
	return errors.Join(npy.Write(f, t), f.Close())
}

// floats are samples of a file, their numbers divided by divide, and the shape of one.
func floats(path string, rows []int, divide float64) (v []float32, shape []int, err error) {
	t, err := data.Read(path)
	if err != nil {
		return nil, nil, err
	}
	per := t.Len() / t.Shape[0]
	c, err := data.NewColumn(t, tensor.Float32, per, divide)
	if err != nil {
		return nil, nil, err
	}
	v = make([]float32, per*len(rows))
	return v, t.Shape[1:], c.Fill(tensor.From(v, len(rows), per), rows, -1)
}

// labels are what the outputs of samples are judged by.
func (t *task) labels(rows []int) (all [][]float32, err error) {
	for _, path := range append([]string{t.peer.Labels}, t.peer.More...) {
		v, _, err := floats(path, rows, 1)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// judged replaces the metric of the last evaluation by what a trained model comes to.
func (b *bench) judged(t task, path string, seed int, epochs [][]float64) error {
	rows, _ := data.Part(t.count, t.part, uint64(seed))
	given, err := t.run(path, rows, seed)
	if err != nil {
		return err
	}
	labels, err := t.labels(rows)
	if err != nil {
		return err
	}
	epochs[len(epochs)-1][1], err = t.judge(given, labels)
	return err
}

// run are the outputs of a model for samples.
func (t *task) run(path string, rows []int, seed int) (given map[string][]float32, err error) {
	m, err := weir.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	in := weir.Inputs{}
	for _, v := range m.Inputs() {
		shape := []int{len(rows)}
		var x []float32
		if v.Name == t.noise {
			x = make([]float32, len(rows)*v.Type.Shape[1].Size)
			shape = append(shape, v.Type.Shape[1].Size)
			n := data.Noise{Kind: data.Normal, Seed: uint64(seed)}
			err = n.Fill(tensor.From(x, shape...), rows, -1)
		} else {
			var one []int
			x, one, err = floats(t.peer.Inputs[0], rows, t.peer.Divide)
			shape = append(shape, one...)
		}
		if err != nil {
			return nil, err
		}
		if in[v.Name], err = weir.NewTensor(x, shape...); err != nil {
			return nil, err
		}
	}
	out, err := m.Run(context.Background(), in)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	given = map[string][]float32{}
	for _, name := range t.gives {
		v, err := weir.Output[float32](out, name)
		if err != nil {
			return nil, err
		}
		given[name] = append([]float32(nil), v...)
	}
	return given, nil
}
