package main

import (
	"context"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/internal/claims"
	"github.com/weirgpu/weir/plan"
)

// rates is the group of that name.
func rates(ctx context.Context, b *bench) error {
	m, err := b.model(ctx, "bert-base")
	if err != nil {
		return err
	}
	if err := b.rateMapped(ctx, m); err != nil {
		return err
	}
	if err := b.rateRepacked(ctx, m); err != nil {
		return err
	}
	return b.rateFar(ctx)
}

const several = 9 // rounds of a rate

// rateMapped takes the rate at which pages of a file in the system's cache come.
func (b *bench) rateMapped(ctx context.Context, m *model) error {
	b.memory.SetCap(0)
	was := m.transfer
	m.transfer = nil
	for range several {
		if err := m.arrive(ctx); err != nil {
			return err
		}
	}
	b.Figures["rate of mapping, GB/s"] = float64(m.bytes()) / claims.Median(m.transfer) / 1e6
	m.transfer = was
	return m.evict()
}

// rateRepacked takes the rate at which one core packs weights again.
func (b *bench) rateRepacked(ctx context.Context, m *model) error {
	source, err := m.file.Source()
	if err != nil {
		return err
	}
	p, err := plan.Compile(ctx, source.Graph, m.compiled.Options)
	if err != nil {
		return err
	}
	s, err := engine.Load(p, engine.Options{Device: m.machine.Device, Pool: m.machine.Pool})
	if err != nil {
		return err
	}
	defer s.Close()
	again := &model{name: m.name, session: s}
	for range several {
		if err := again.arrive(ctx); err != nil {
			return err
		}
	}
	b.Figures["rate of packing again, GB/s"] = float64(p.PackedBytes) /
		claims.Median(again.transfer) / 1e6
	return nil
}

// rateFar takes those of the plain evaluation on the device whose memory the host cannot address:
// of products, and of steps that do little but move.
func (b *bench) rateFar(ctx context.Context) error {
	f, err := newFarther(ctx, device.Bus{}, 64)
	if err != nil {
		return err
	}
	defer f.close()
	for range several {
		if err := f.profile(ctx); err != nil {
			return err
		}
	}
	var flops, bytes, computing, moving float64
	for s, took := range f.steps {
		seconds := claims.Median(took) / float64(time.Second/time.Millisecond)
		switch s.Node.Type {
		case "MatMul", "Gemm":
			flops, computing = flops+float64(s.Flops), computing+seconds
		case "Transpose", "Add":
			bytes, moving = bytes+float64(s.Bytes), moving+seconds
		}
	}
	b.Figures["rate of far's evaluation, GFLOP/s"] = flops / computing / 1e9
	b.Figures["rate of far's moving, GB/s"] = bytes / moving / 1e9
	return nil
}
