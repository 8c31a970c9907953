package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/claims"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/step"
)

// architectures are models of torchvision and transformers, which PyTorch exports with the moments
// of batches kept. Their samples are noise: what is compared is arithmetic.
var architectures = []subject{
	{name: "resnet18", shape: []int{8, 3, 224, 224}, exact: []int{2, 3, 64, 64}, turn: 3},
	{name: "resnet50", shape: []int{8, 3, 224, 224}, exact: []int{2, 3, 64, 64}, turn: 1},
	{name: "mobilenet_v2", shape: []int{16, 3, 224, 224}, exact: []int{4, 3, 64, 64}, turn: 3},
	{name: "minilm", shape: []int{16, 128}, exact: []int{2, 8}, tokens: 1000, turn: 3},
	{name: "bert", shape: []int{8, 128}, exact: []int{2, 8}, tokens: 1000, turn: 1},
}

// slow is how architectures are trained: a rate at which 20 updates follow the gradient, and do not
// enlarge what rounds otherwise.
var slow = optimizer{step.Momentum.Defaults(), 1e-3}

// export has PyTorch write a model, and makes batches for it, which are files of the folder, too.
func (b *bench) export(s *subject, folder string) (*batches, error) {
	file := filepath.Join(folder, s.name+".onnx")
	if _, err := b.peer.ask(&request{Model: s.name, Export: file, Folder: folder, Shape: s.shape,
		Tokens: s.tokens}); err != nil {
		return nil, err
	}
	s.file = file
	const some = 4
	var err error
	rng, of := rand.New(rand.NewPCG(5, 6)), &batches{}
	for i := range some {
		y := make([]int64, s.shape[0])
		for k := range y {
			y[k] = rng.Int64N(10)
		}
		of.y = append(of.y, y)
		name := filepath.Join(folder, fmt.Sprintf("x%d", i))
		if s.tokens > 0 {
			of.ids = append(of.ids, make([]int64, s.shape[0]*s.shape[1]))
			for k := range of.ids[i] {
				of.ids[i][k] = rng.Int64N(int64(s.tokens))
			}
			ids := tensor.From(of.ids[i], s.shape...)
			err = errors.Join(err, os.WriteFile(name, ids.Data, 0o600))
			continue
		}
		n := 1
		for _, d := range s.shape {
			n *= d
		}
		x := make([]float32, n)
		for k := range x {
			x[k] = float32(rng.NormFloat64())
		}
		of.x = append(of.x, x)
		err = errors.Join(err, os.WriteFile(name, tensor.From(x, s.shape...).Data, 0o600))
	}
	return of, err
}

// architecture compares and times a model that PyTorch exports.
func (b *bench) architecture(ctx context.Context, s *subject) (err error) {
	folder, err := os.MkdirTemp("", "weir-train-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	of, err := b.export(s, folder)
	if err != nil {
		return err
	}
	if err := b.exactly(ctx, s, folder); err != nil {
		return fmt.Errorf("in float64: %w", err)
	}
	if b.exact {
		return nil
	}
	if err := b.anew(ctx); err != nil {
		return err
	}
	t, err := open(ctx, b.on, s, slow, of)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	a, err := b.peer.ask(&request{Model: s.name, Threads: b.Threads, Folder: folder, Y: of.y,
		Updates: updates, Shape: s.shape, Tokens: s.tokens, Optimizer: slow.asked()})
	if err != nil {
		return err
	}
	losses, ds, err := t.begin(ctx)
	if err != nil {
		return err
	}
	c := compared{Model: s.name, Optimizer: string(slow.Kind), Weir: losses, Torch: a.Losses,
		Loss: worst(losses, a.Exact), TorchLoss: worst(a.Losses, a.Exact)}
	if err := c.distances(folder, a.Files, ds); err != nil {
		return err
	}
	b.Claims.Check(s.name+", losses from float64's over the bound",
		c.Loss/max(mostDifference, c.TorchLoss*mostOfPyTorch), 1, true)
	b.Claims.Check(s.name+", gradients from float64's over the bound",
		c.Gradient/max(mostDifference, c.TorchGradient*mostOfPyTorch), 1, true)
	b.Torch, b.Compared = a.Version, append(b.Compared, c)
	held := float64(t.plan.ArenaBytes + t.plan.PackedBytes + t.step.State.Bytes())
	b.Figures[s.name+", weir, MB"], b.Figures[s.name+", PyTorch, MB"] = held/1e6, a.Peak/1e6
	b.Claims.Check(s.name+", memory over PyTorch's", held/a.Peak, mostMemory, true)
	if err := b.stepsOf(ctx, t); err != nil {
		return err
	}
	return b.race(ctx, s, t, nil, b.eager())
}

// anew starts PyTorch's process again: what it grows by is then what training takes, of which
// nothing is left over from models that were written.
func (b *bench) anew(ctx context.Context) (err error) {
	if err := b.peer.stop(); err != nil {
		return err
	}
	b.peer, err = start(ctx, b.python, eager)
	return err
}

// mostOfPyTorch is how far weir may be from what float64 gives, in parts of how far PyTorch is in
// float32. Where signs of activations decide, rounding in float32 moves gradients by more than
// mostDifference, whoever rounds: a part f of signs that change moves them by √f.
const mostOfPyTorch = 1.5

// leastPart is the least norm of a weight's gradient, in parts of that of all, that differences are
// taken in parts of: gradients that are 0 but for rounding have no direction.
const leastPart = 1e-3

// distances finds how far the gradients of the worst weights are from PyTorch's in float64: weir's,
// and PyTorch's in float32. Both are in files.
func (c *compared) distances(folder string, files map[string]string,
	ds map[string][]float32) error {
	type three struct{ weir, torch, exact []float32 }
	var all []three
	square := 0.0
	for name, d := range ds {
		if files[name] == "" {
			return fmt.Errorf("PyTorch has no gradient of %q", name)
		}
		exact, err := numbers(filepath.Join(folder, "exact"+files[name]), 8)
		if err != nil {
			return err
		}
		torch, err := numbers(filepath.Join(folder, "gradient"+files[name]), 4)
		if err != nil {
			return err
		}
		all, square = append(all, three{d, torch, exact}), square+normOf(exact)*normOf(exact)
	}
	for _, g := range all {
		n := normOf(g.exact)
		share := n / max(n, leastPart*math.Sqrt(square))
		if n == 0 {
			continue
		}
		c.Gradient = max(c.Gradient, share*claims.Distance(g.weir, g.exact))
		c.TorchGradient = max(c.TorchGradient, share*claims.Distance(g.torch, g.exact))
	}
	return nil
}

func normOf(v []float32) float64 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return math.Sqrt(sum)
}

// numbers reads a file of floats of 4 or 8 bytes.
func numbers(path string, size int) ([]float32, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	v := make([]float32, len(raw)/size)
	for i := range v {
		if at := raw[size*i:]; size == 8 {
			v[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(at)))
		} else {
			v[i] = math.Float32frombits(binary.LittleEndian.Uint32(at))
		}
	}
	return v, nil
}

// asked are an optimizer's numbers as PyTorch is given them.
func (o optimizer) asked() map[string]any {
	return map[string]any{"kind": o.Kind, "rate": o.Rate, "momentum": o.Momentum,
		"beta1": o.Beta1, "beta2": o.Beta2, "epsilon": o.Epsilon, "decay": o.Decay}
}

// exported reads the model that PyTorch wrote.
func (s *subject) exported() (*graph.Graph, func() error, error) {
	m, err := onnx.Open(s.file, onnx.Options{})
	if err != nil {
		return nil, nil, err
	}
	return step.Apart(m.Graph), m.Close, nil
}
