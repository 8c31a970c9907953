package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/plan/cache"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/zoo"
)

var (
	picture = map[string][]int{"input": {1, 3, 224, 224}}
	text    = map[string][]int{"input_ids": {1, 128}}
)

// subjects are the models, and the one that each takes turns with.
var subjects = []struct {
	name, beside string
}{{"resnet50", "bert-base"}, {"bert-base", "resnet50"}, {"mobilenetv2", "minilm-l6"}}

// shapes are those of a model's inputs.
var shapes = map[string]map[string][]int{"resnet50": picture, "mobilenetv2": picture,
	"bert-base": text, "minilm-l6": text}

// model is one that is loaded, with weights that are mapped from the plan cache.
type model struct {
	name, path string
	file       *cache.Model
	compiled   *cache.Compiled
	machine    *machine.Machine
	memory     device.Quota
	session    *engine.Session
	request    *engine.Instance

	resident, transfer, switched []float64 // milliseconds
}

// write makes a model's file, old enough for its plan to be kept.
func (b *bench) write(name string) (path string, err error) {
	path = filepath.Join(b.dir, name+".onnx")
	g, err := zoo.New(name, zoo.Options{})
	if err != nil {
		return "", err
	}
	if err := onnx.WriteFile(path, g, onnx.WriteOptions{}); err != nil {
		return "", err
	}
	time.Sleep(2 * cache.Settled)
	return path, nil
}

// model returns a model that is loaded, of which there is one by name.
func (b *bench) model(ctx context.Context, name string) (*model, error) {
	if m := b.loaded[name]; m != nil {
		return m, nil
	}
	path, err := b.write(name)
	if err != nil {
		return nil, err
	}
	plans, err := cache.Open(cache.Options{Dir: filepath.Join(b.dir, "plans")})
	if err != nil {
		return nil, err
	}
	for range 2 { // the first one writes the plan
		m := &model{name: name, path: path, memory: &b.memory}
		if err := m.load(ctx, plans, b.Threads); err != nil {
			m.close()
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if m.compiled.Cached() {
			b.loaded[name] = m
			return m, m.evict()
		}
		err := m.session.WithWeights(ctx, m.compiled.Save)
		m.close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil, fmt.Errorf("%s: its plan was kept, and is not found", name)
}

// load loads a model as a program does, and fills its inputs.
func (m *model) load(ctx context.Context, plans *cache.Cache, threads int) (err error) {
	if m.machine, err = machine.Open("cpu:0", machine.Options{Threads: threads}); err != nil {
		return err
	}
	if m.file, err = plans.Model(m.path); err != nil {
		return err
	}
	m.compiled, err = m.file.Compile(ctx, plan.Options{Target: m.machine.Target,
		Shapes: shapes[m.name], Threads: threads})
	if err != nil {
		return err
	}
	m.session, err = engine.Load(m.compiled.Plan, engine.Options{Device: m.machine.Device,
		Pool: m.machine.Pool, Quota: m.memory, ArenaQuota: engine.Unlimited,
		Weights: m.compiled.Weights, Discard: m.compiled.Discard})
	if err != nil {
		return err
	}
	if m.request, err = m.session.Take(); err != nil {
		return err
	}
	fill(m.request)
	return nil
}

// fill has something in every input: tokens of number 1, or pictures.
func fill(i *engine.Instance) {
	for _, in := range i.Inputs() {
		if in.DType == tensor.Int64 {
			for k := range tensor.As[int64](in) {
				tensor.As[int64](in)[k] = 1
			}
			continue
		}
		for k := range tensor.As[float32](in) {
			tensor.As[float32](in)[k] = float32(k%17) / 17
		}
	}
}

// close ends what load has begun.
func (m *model) close() {
	if m.session != nil {
		m.session.Close()
	}
	if m.request != nil {
		m.request.Free()
	}
	if m.file != nil {
		_ = m.file.Close() // of which nothing is used any more
	}
	if m.machine != nil {
		_ = m.machine.Close()
	}
}

func (b *bench) close() {
	for _, m := range b.loaded {
		m.close()
	}
}

// run answers one request.
func (m *model) run(ctx context.Context) error {
	fill(m.request)
	return m.request.Run(ctx, device.Open)
}

// evict has all weights leave.
func (m *model) evict() error {
	if m.session.Evict(m.bytes()); m.session.Away() != m.bytes() {
		return fmt.Errorf("%s: %d of %d bytes are away", m.name, m.session.Away(), m.bytes())
	}
	return nil
}

// bytes are those of the weights.
func (m *model) bytes() int64 { return m.session.Plan().PackedBytes }

// take switches from another model to this one: how long until its output is there.
func (m *model) take(ctx context.Context, from *model) error {
	begin := time.Now()
	if err := from.evict(); err != nil {
		return err
	}
	if err := m.run(ctx); err != nil {
		return err
	}
	m.switched = append(m.switched, ms(begin))
	return nil
}

// arrive has the weights leave and come, and nothing run meanwhile.
func (m *model) arrive(ctx context.Context) error {
	if err := m.evict(); err != nil {
		return err
	}
	begin := time.Now()
	if err := m.session.Recall(ctx); err != nil {
		return err
	}
	if err := m.session.WithWeights(ctx, func([]byte) error { return nil }); err != nil {
		return err
	}
	m.transfer = append(m.transfer, ms(begin))
	return nil
}

// round runs both models in memory for both, and then switches from b to a and back in memory for
// the larger one. In the beginning and in the end both are away.
func (b *bench) round(ctx context.Context, first, second *model) error {
	pair := []*model{first, second}
	b.memory.SetCap(0)
	for _, m := range pair {
		if err := m.run(ctx); err != nil {
			return err
		}
	}
	for _, m := range pair {
		begin := time.Now()
		if err := m.run(ctx); err != nil {
			return err
		}
		m.resident = append(m.resident, ms(begin))
	}
	if err := first.evict(); err != nil {
		return err
	}
	b.memory.SetCap(share.Bytes(max(first.bytes(), second.bytes())))
	for i, m := range pair {
		if err := m.take(ctx, pair[1-i]); err != nil {
			return err
		}
		if err := m.arrive(ctx); err != nil {
			return err
		}
	}
	return second.evict()
}

// near is the group of that name.
func near(ctx context.Context, b *bench) error {
	for _, s := range subjects {
		m, err := b.model(ctx, s.name)
		if err != nil {
			return err
		}
		if len(m.switched) > 0 {
			continue
		}
		other, err := b.model(ctx, s.beside)
		if err != nil {
			return err
		}
		for range b.Rounds {
			if err := b.round(ctx, m, other); err != nil {
				return err
			}
		}
	}
	for _, s := range subjects {
		b.judge(b.loaded[s.name])
	}
	return nil
}

// judge compares each switch with the run and the transfer of its own round.
func (b *bench) judge(m *model) {
	b.note(m.name+", resident run, ms", m.resident)
	b.note(m.name+", weights alone, ms", m.transfer)
	b.note(m.name+", switch, ms", m.switched)
	claim := m.name + ", switch less 2 ms over the longer of its run and its transfer"
	for i, took := range m.switched {
		b.Claims.Check(claim, (took-2)/max(m.resident[i], m.transfer[i]), 1.15, true)
	}
}
