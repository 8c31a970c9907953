package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/internal/claims"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/internal/roofline"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/scale"
	"github.com/weirgpu/weir/train/step"
	"github.com/weirgpu/weir/zoo"
)

// batches are the networks whose updates are timed, and how many samples one takes.
var batches = map[string]int{"resnet50": 8, "bert-base": 8, "mobilenetv2": 8, "minilm-l6": 16}

// scores are the outputs that losses are of, where a network has several.
var scores = map[string]string{"bert-base": "pooler_output", "minilm-l6": "pooler_output"}

// mostTime is the bound of issue 15 on an update in bfloat16, in parts of one in float32.
const mostTime = 0.75

// trained is a network in one precision, ready to make updates.
type trained struct {
	step     *step.Step
	plan     *plan.Plan
	state    *engine.State
	session  *engine.Session
	instance *engine.Instance
	inputs   []zoo.Input
	update   int64
}

// optimizer is that of all networks.
var optimizer = step.AdamW.Defaults()

// train plans the updates of a network in a precision, and starts its weights. The caller closes
// what it returns.
func train(ctx context.Context, on *machine.Machine, name string, p pass.Precision) (*trained,
	error) {
	g, err := zoo.New(name, zoo.Options{})
	if err != nil {
		return nil, err
	}
	t := &trained{}
	o := step.Options{Shapes: map[string][]int{}, Loss: step.Loss{Kind: step.CrossEntropy,
		Scores: scores[name]}, Optimizer: optimizer}
	if p != pass.FP32 {
		o.Scale = scale.Options{Kind: scale.Constant, Init: 1}
	}
	for _, a := range zoo.All() {
		if a.Name != name {
			continue
		}
		t.inputs = a.Inputs
		for _, in := range a.Inputs {
			o.Shapes[in.Name] = append([]int{batches[name]}, in.Shape[1:]...)
		}
	}
	if t.step, err = step.Build(g, o); err != nil {
		return nil, err
	}
	if err := t.load(ctx, on, p); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// load plans the graph of the updates, and takes its memory.
func (t *trained) load(ctx context.Context, on *machine.Machine, p pass.Precision) (err error) {
	if t.state, err = engine.NewState(on.Device, nil, t.step.State); err != nil {
		return err
	}
	t.plan, err = plan.Compile(ctx, t.step.Train.Graph, plan.Options{Target: on.Target,
		Threads: on.Pool.Threads(), State: t.step.State, Updates: t.step.Train.Updates,
		Passes: pass.Options{Precision: p}, Recompute: step.Recompute()})
	if err != nil {
		return err
	}
	t.session, err = engine.Load(t.plan, engine.Options{Device: on.Device, Pool: on.Pool,
		PackPool: on.Pool, Context: ctx, State: t.state})
	if err != nil {
		return err
	}
	if t.instance, err = t.session.Take(); err != nil {
		return err
	}
	clear(t.state.Bytes())
	starts := map[string]*tensor.Tensor{}
	for _, p := range t.step.Params {
		starts[p.Name] = p.Start
	}
	for i, v := range t.step.State.Variables() {
		if start := starts[v.Name]; start != nil {
			if err := t.state.Values()[i].Set(start); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *trained) close() {
	if t.instance != nil {
		t.instance.Put()
	}
	if t.session != nil {
		t.session.Close()
	}
	if t.state != nil {
		t.state.Free()
	}
}

// fill draws a batch, the same each time, and gives the optimizer its numbers.
func (t *trained) fill() {
	t.update++
	rng := rand.New(rand.NewPCG(5, 6))
	scalars := optimizer.Scalars(1e-5, t.update)
	limits := map[string]int{t.step.Labels.Name: t.step.Labels.Classes}
	for _, in := range t.inputs {
		limits[in.Name] = in.Limit
	}
	for i, v := range t.plan.Graph.Inputs {
		to := t.instance.Inputs()[i]
		limit, data := limits[v.Name]
		n, scalar := scalars[v.Name]
		switch {
		case scalar:
			tensor.As[float32](to)[0] = n
		case v.Name == "attention_mask":
			for k := range tensor.As[int64](to) {
				tensor.As[int64](to)[k] = 1
			}
		case data && to.DType == tensor.Int64:
			for k := range tensor.As[int64](to) {
				tensor.As[int64](to)[k] = int64(rng.IntN(limit))
			}
		case data:
			for k := range tensor.As[float32](to) {
				tensor.As[float32](to)[k] = rng.Float32()
			}
		}
	}
}

// time makes an update, and returns its loss and its milliseconds.
func (t *trained) time(ctx context.Context) (loss, ms float64, err error) {
	t.fill()
	begin := time.Now()
	err = t.instance.Run(ctx, device.Open)
	ms = float64(time.Since(begin)) / float64(time.Millisecond)
	return float64(tensor.As[float32](t.instance.Outputs()[0])[0]), ms, err
}

// updates are what a network's took in float32 and in bfloat16.
type updates struct {
	Date      string             `json:"date"`
	Machine   string             `json:"machine"`
	Processor roofline.Processor `json:"processor"`
	Go        string             `json:"go"`
	Network   string             `json:"network"`
	Batch     int                `json:"batch"`
	Rounds    int                `json:"rounds"`
	FP32      oneForm            `json:"fp32"`
	BF16      oneForm            `json:"bf16"`
	Ratio     float64            `json:"ratio"`
	Bound     float64            `json:"bound"`
	Held      bool               `json:"held"`
}

// oneForm is the median of a precision's updates, its memory, and the loss after the last.
type oneForm struct {
	Median     float64 `json:"median_ms"`
	ArenaBytes int64   `json:"arena_bytes"`
	Loss       float64 `json:"loss"`
}

// race times updates of a network in both precisions, in turn, and prints what was measured, and
// what the steps of each kernel take, to w.
func race(ctx context.Context, name string, rounds int, w io.Writer) (u *updates, err error) {
	if batches[name] == 0 {
		return nil, fmt.Errorf("network %q: want one of %s", name,
			strings.Join(slices.Sorted(maps.Keys(batches)), ", "))
	}
	on, err := machine.Open("cpu:0", machine.Options{Threads: 2})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, on.Close()) }()
	var ts [2]*trained
	for i, p := range []pass.Precision{pass.FP32, pass.BF16} {
		if ts[i], err = train(ctx, on, name, p); err != nil {
			return nil, err
		}
		defer ts[i].close()
	}
	took, losses, err := inTurn(ctx, ts, rounds)
	if err != nil {
		return nil, err
	}
	u = &updates{Date: time.Now().UTC().Format("2006-01-02"), Machine: cpuinfo.ModelName(),
		Processor: roofline.Identify(), Go: runtime.Version(), Network: name, Batch: batches[name],
		Rounds: rounds, Bound: mostTime}
	for k, form := range []*oneForm{&u.FP32, &u.BF16} {
		*form = oneForm{claims.Median(took[k]), ts[k].plan.ArenaBytes, losses[k]}
	}
	u.Ratio = u.BF16.Median / u.FP32.Median
	u.Held = u.Ratio <= mostTime
	u.print(w)
	for _, t := range ts {
		if err := t.profile(ctx, w); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// print says what was measured, in a line.
func (u *updates) print(w io.Writer) {
	wide, narrow := float64(u.FP32.ArenaBytes)/1e6, float64(u.BF16.ArenaBytes)/1e6
	fmt.Fprintf(w, "%s, batch %d: %.0f ms in float32, %.0f in bfloat16: %.3f (%g at most); arena "+
		"%.1f MB and %.1f: %.3f; loss %.6f and %.6f\n", u.Network, u.Batch, u.FP32.Median,
		u.BF16.Median, u.Ratio, u.Bound, wide, narrow, narrow/wide, u.FP32.Loss, u.BF16.Loss)
}

// inTurn has both forms of a network make an update in each round, and returns the milliseconds of
// all but the first, which touches memory, and the last losses.
func inTurn(ctx context.Context, ts [2]*trained, rounds int) (took [2][]float64, losses [2]float64,
	err error) {
	for i := range rounds + 1 {
		for k, t := range ts {
			loss, ms, err := t.time(ctx)
			if err != nil {
				return took, losses, err
			}
			if losses[k] = loss; i > 0 {
				took[k] = append(took[k], ms)
			}
		}
	}
	return took, losses, nil
}

// profile prints what the steps of each kernel take.
func (t *trained) profile(ctx context.Context, w io.Writer) error {
	p, err := roofline.Profile(ctx, &roofline.Machine{}, t.instance, func() error {
		t.fill()
		return nil
	}, 3)
	if err == nil {
		p.Print(w)
	}
	return err
}
