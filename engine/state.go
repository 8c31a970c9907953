package engine

import (
	"fmt"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
)

// State is a plan's state in memory of a device: what iterations leave for those after them. It
// outlives the sessions that are loaded with it ([Options.State]). One iteration at a time may run
// on it, of whichever session.
type State struct {
	plan   *plan.State
	buffer device.Buffer // nil of memory that was given
	mem    []byte
	quota  device.Quota
}

// NewState reserves and allocates the memory of a state, all zeros. A nil quota stands for
// Unlimited. The caller owns it, and frees it after the sessions that use it are closed.
func NewState(d device.Device, q device.Quota, p *plan.State) (*State, error) {
	if q == nil {
		q = Unlimited
	}
	if err := q.Reserve(p.Bytes()); err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	b, err := d.Alloc(p.Bytes())
	if err != nil {
		q.Release(p.Bytes())
		return nil, fmt.Errorf("state: %w", err)
	}
	if !hostVisible(b) {
		release(q, b)
		return nil, fmt.Errorf("state: %w: %s has memory that the host cannot address: train on "+
			"cpu:0", plan.ErrState, d.Info().ID)
	}
	mem := device.HostView(b)
	clear(mem)
	return &State{plan: p, buffer: b, mem: mem, quota: q}, nil
}

// NewStateIn is [NewState] in memory that the caller gives, all zeros, and keeps until the state is
// freed: at least so many bytes as the plan's state has, aligned as a buffer of the CPU is. The
// quota grants them. It is for state that another process reads.
func NewStateIn(mem []byte, q device.Quota, p *plan.State) (*State, error) {
	if q == nil {
		q = Unlimited
	}
	if int64(len(mem)) < p.Bytes() {
		return nil, fmt.Errorf("state: %w: %d bytes are given, it has %d", plan.ErrState, len(mem),
			p.Bytes())
	}
	if err := q.Reserve(p.Bytes()); err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	return &State{plan: p, mem: mem[:p.Bytes()], quota: q}, nil
}

// Values are the variables, in the order of the plan's, as they are in memory: between iterations
// they may be read and written.
func (s *State) Values() []*tensor.Tensor { return s.plan.Views(s.mem) }

// Bytes is all of the state, as it is in memory; between iterations it may be read and written.
func (s *State) Bytes() []byte { return s.mem }

// Free gives the memory back, but for what was given.
func (s *State) Free() {
	if s.buffer == nil {
		s.quota.Release(s.plan.Bytes())
		return
	}
	release(s.quota, s.buffer)
}
