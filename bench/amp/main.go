// Command amp holds mixed precision and the scales of losses against PyTorch's: the scales that
// torch.amp.GradScaler takes on given sequences of overflows, number for number, and the gradients
// of a net under torch.autocast in bfloat16, by their distance from those in float32:
//
//	python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch numpy
//	go run ./bench/amp -python /tmp/torch/bin/python
//
// The exit code is 1 when a scale differs, or when gradients are further from float32 than
// PyTorch's are. With -steps it compares what updates of a network take in float32 and in bfloat16,
// in turn, their memory, and what the steps of each kernel take:
//
//	go run ./bench/amp -steps bert-base
//	go run ./bench/amp -steps bert-base -json > bench/results/DATE-amp-bert-base.json
//
// The exit code is then 1 when an update in bfloat16 takes more than the bound. What it says of the
// steps goes to standard error.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/grad"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/claims"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/scale"
)

// command is how messages begin.
const command claims.Command = "amp"

//go:embed oracle.py
var oracle string

// sequence is a rule and the steps that overflow.
type sequence struct {
	Init     float64 `json:"init"`
	Growth   float64 `json:"growth"`
	Backoff  float64 `json:"backoff"`
	Interval int     `json:"interval"`
	Bad      []bool  `json:"bad"`
}

// net is a net of products with tanh between, and what goes in.
type net struct {
	Rows  int         `json:"rows"`
	Width int         `json:"width"`
	X     []float32   `json:"x"`
	W     [][]float32 `json:"w"`
}

type request struct {
	Scales []sequence `json:"scales"`
	Net    net        `json:"net"`
}

type answer struct {
	Torch  string         `json:"torch"`
	Scales [][][2]float64 `json:"scales"` // after each step, with the count of good ones
	FP32   [][]float32    `json:"fp32"`
	BF16   [][]float32    `json:"bf16"`
}

func main() {
	python := flag.String("python", "python3", "a Python that has torch")
	steps := flag.String("steps", "", "only time updates of this network, such as bert-base")
	rounds := flag.Int("rounds", 3, "rounds of updates that are timed")
	asJSON := flag.Bool("json", false, "with -steps: print one JSON object")
	flag.Parse()
	if *steps != "" {
		u, err := race(context.Background(), *steps, *rounds, os.Stderr)
		command.Check(err)
		command.Finish(u, *asJSON, u.Held)
		return
	}
	command.Check(run(context.Background(), *python))
}

func run(ctx context.Context, python string) error {
	r := newRequest(rand.New(rand.NewPCG(1, 2)))
	a, err := ask(ctx, python, r)
	if err != nil {
		return err
	}
	steps := 0
	for i, s := range r.Scales {
		if err := s.compare(ctx, a.Scales[i]); err != nil {
			return fmt.Errorf("%g, x%g, x%g after %d: %w", s.Init, s.Growth, s.Backoff, s.Interval,
				err)
		}
		steps += len(s.Bad)
	}
	fmt.Printf("torch %s: %d scales of %d sequences are equal\n", a.Torch, steps, len(r.Scales))
	return r.Net.compare(ctx, a)
}

// newRequest draws what both compute.
func newRequest(rng *rand.Rand) *request {
	r := &request{Net: net{Rows: 256, Width: 128}}
	for range 20 {
		s := sequence{Init: math.Exp2(float64(rng.IntN(130) - 4)), Growth: 2, Backoff: 0.5,
			Interval: 1 + rng.IntN(5)}
		if rng.IntN(2) == 0 {
			s.Growth, s.Backoff = 1+rng.Float64(), 0.25+rng.Float64()/2
		}
		for range 200 {
			s.Bad = append(s.Bad, rng.IntN(6) == 0)
		}
		r.Scales = append(r.Scales, s)
	}
	floats := func(n int, by float64) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(by * rng.NormFloat64())
		}
		return x
	}
	n := &r.Net
	n.X = floats(n.Rows*n.Width, 1)
	for range 6 {
		n.W = append(n.W, floats(n.Width*n.Width, 1/math.Sqrt(float64(n.Width))))
	}
	return r
}

// ask has PyTorch compute.
func ask(ctx context.Context, python string, r *request) (*answer, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, python, "-c", oracle)
	c.Stdin, c.Stderr = bytes.NewReader(text), os.Stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s with torch: %w", python, err)
	}
	a := &answer{}
	return a, json.Unmarshal(out, a)
}

// namer makes names of a graph.
func namer() func(string) string {
	n := 0
	return func(base string) string {
		n++
		return fmt.Sprint(base, ".", n)
	}
}

// compare follows a sequence by the graph of a scale.
func (s *sequence) compare(ctx context.Context, want [][2]float64) error {
	d := &graph.Value{Name: "d", Type: op.Concrete(tensor.Float32, 2)}
	g := &graph.Graph{Name: "scale", Inputs: []*graph.Value{d}, Opsets: map[string]int{"": 18}}
	by, err := scale.New(g, scale.Options{Kind: scale.Torch, Init: s.Init, Growth: s.Growth,
		Backoff: s.Backoff, Interval: s.Interval}, namer())
	if err != nil {
		return err
	}
	by.Gradients([]*graph.Value{d})
	in := []*tensor.Tensor{nil}
	for _, v := range by.Variables() {
		in = append(in, v.Start)
		g.Outputs = append(g.Outputs, v.Next)
	}
	for i, bad := range s.Bad {
		in[0] = tensor.From([]float32{1, 2}, 2)
		if bad {
			tensor.As[float32](in[0])[1] = float32(math.Inf(1))
		}
		out, err := g.Eval(ctx, in)
		if err != nil {
			return err
		}
		copy(in[1:], out)
		now, good := tensor.As[float32](out[0])[0], tensor.As[int64](out[2])[0]
		if float64(now) != want[i][0] || float64(good) != want[i][1] {
			return fmt.Errorf("step %d: scale %g after %d good steps, PyTorch has %g, %g", i, now,
				good, want[i][0], want[i][1])
		}
	}
	return nil
}

// graph is the step of the net: its outputs are the gradients of its weights.
func (n *net) graph() (*graph.Graph, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "graph \"net\" {\nopset \"\" 18\ninput %%h0: float32[%d,%d]\n", n.Rows, n.Width)
	for i := range n.W {
		fmt.Fprintf(&b, "input %%w%d: float32[%d,%d]\n", i, n.Width, n.Width)
	}
	for i := range n.W {
		fmt.Fprintf(&b, "%%p%d = MatMul@13 (%%h%d, %%w%d)\n%%h%d = Tanh@13 (%%p%d)\n", i, i, i, i+1,
			i)
	}
	fmt.Fprintf(&b, "%%s = Mul@14 (%%h%d, %%h%d)\n%%loss = ReduceMean@13 (%%s) {keepdims=0}\n"+
		"output %%loss\n}", len(n.W), len(n.W))
	g, err := graph.Parse(b.String())
	if err != nil {
		return nil, err
	}
	s, err := scale.New(g, scale.Options{Kind: scale.Constant, Init: 1}, namer())
	if err != nil {
		return nil, err
	}
	ds, err := grad.Backward(g, grad.Objective{Of: []*graph.Value{s.Loss(g.Outputs[0])},
		By: g.Inputs[1 : 1+len(n.W)]})
	if err != nil {
		return nil, err
	}
	g.Outputs = s.Gradients(ds)
	return g, g.Sort()
}

// gradients runs the step in a precision.
func (n *net) gradients(ctx context.Context, on *machine.Machine, p pass.Precision,
	off ...string) (ds [][]float32, arena int64, err error) {
	g, err := n.graph()
	if err != nil {
		return nil, 0, err
	}
	target := on.Target
	if f := target.Features(); !f.BF16 { // slowly
		f.BF16 = true
		target = compute.WithFeatures(target, f)
	}
	pl, err := plan.Compile(ctx, g, plan.Options{Target: target, Threads: on.Pool.Threads(),
		Passes: pass.Options{Precision: p, Off: off}})
	if err != nil {
		return nil, 0, err
	}
	s, err := engine.Load(pl, engine.Options{Device: on.Device, Pool: on.Pool})
	if err != nil {
		return nil, 0, err
	}
	defer s.Close()
	i, err := s.Take()
	if err != nil {
		return nil, 0, err
	}
	defer i.Put()
	for k, v := range i.Inputs() {
		switch name := pl.Graph.Inputs[k].Name; {
		case name == "h0":
			copy(tensor.As[float32](v), n.X)
		case name[0] == 'w' && k <= len(n.W):
			copy(tensor.As[float32](v), n.W[k-1])
		case v.DType == tensor.Float32:
			tensor.As[float32](v)[0] = 1
		}
	}
	if err := i.Run(ctx, device.Open); err != nil {
		return nil, 0, err
	}
	for _, v := range i.Outputs() {
		ds = append(ds, append([]float32{}, tensor.As[float32](v)...))
	}
	return ds, pl.ArenaBytes, nil
}

// compare tells how far gradients are from those in float32.
func (n *net) compare(ctx context.Context, a *answer) error {
	on, err := machine.Open("cpu:0", machine.Options{Threads: 2})
	if err != nil {
		return err
	}
	defer on.Close()
	full, wide, err := n.gradients(ctx, on, pass.FP32)
	if err != nil {
		return err
	}
	half, narrow, err := n.gradients(ctx, on, pass.BF16)
	if err != nil {
		return err
	}
	var missed error
	for i := range full {
		same, ours := claims.Distance(full[i], a.FP32[i]), claims.Distance(half[i], full[i])
		theirs := claims.Distance(a.BF16[i], a.FP32[i])
		fmt.Printf("gradient %d: float32 %.2g from PyTorch's; bfloat16 from float32: weir %.2g, "+
			"PyTorch %.2g\n", i, same, ours, theirs)
		if same > 1e-5 || ours > theirs {
			missed = errors.Join(missed, fmt.Errorf("gradient %d: %.2g, %.2g and %.2g: want 1e-5 "+
				"at most, and the second no more than the third", i, same, ours, theirs))
		}
	}
	fmt.Printf("arena: %d bytes in float32, %d in bfloat16: %.2f\n", wide, narrow,
		float64(narrow)/float64(wide))
	return missed
}
