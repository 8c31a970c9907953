package weir

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/plan/cache"
)

// variant is the model compiled for one set of input shapes.
type variant struct {
	model   *model
	shapes  [][]int // by input
	session *engine.Session
	reads   bool // whether steps read the model's mapped file
	bounded bool // made smaller than the plan that takes least time

	mu      sync.Mutex
	free    []*slot         // the one used last at the end
	unused  int             // how many of free have been there since trim was called
	retired bool            // slots go back to the session instead of the free list
	fresh   *cache.Compiled // what the session was made of, if that is to be kept, until it is
}

// slot is one instance with the number of times that it was closed, which tells stale results from
// live ones. A slot in use is known to the result alone, so that it is lost when that is.
type slot struct {
	variant  *variant
	instance *engine.Instance
	uses     uint64
	unclosed runtime.Cleanup
}

// run computes one iteration under a gate.
func (s *slot) run(ctx context.Context, g device.Gate, o RunObserver) error {
	steps, _ := o.(StepObserver)
	s.instance.Watch(steps)
	err := s.instance.Run(ctx, g)
	if !s.variant.reads {
		return err
	}
	if changed := s.variant.model.source.Unchanged(); changed != nil {
		return changed // whatever was made of it
	}
	return err
}

func (v *variant) fits(inputs []*graph.Value, in Inputs) bool {
	for i, x := range inputs {
		if x.Type.DType.IsContainer() {
			continue
		}
		shape, err := x.Type.Fit(in[x.Name].Shape)
		if err != nil || !slices.Equal(v.shapes[i], shape) {
			return false
		}
	}
	return true
}

// take returns a slot that nobody uses.
func (v *variant) take() (*slot, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if n := len(v.free); n > 0 {
		s := v.free[n-1]
		if err := s.instance.Regrow(); err != nil {
			return nil, err
		}
		v.free = slices.Delete(v.free, n-1, n) // which forgets it, so that it can be lost
		v.unused = min(v.unused, n-1)
		return s, nil
	}
	i, err := v.session.Take()
	if err != nil {
		return nil, err
	}
	v.model.countArena()
	s := &slot{variant: v, instance: i}
	s.unclosed = runtime.AddCleanup(s, lost.reclaim, lost{v, i})
	return s, nil
}

// put gives a slot back unless that was done already, which its count of uses tells: use is the
// count at the time of take. It reports whether the slot was given back by this call.
func (v *variant) put(s *slot, use uint64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s.uses != use {
		return false
	}
	s.uses++
	if t := v.model.tenancy.Load(); v.retired || t != nil && t.again.Load() != nil {
		v.drop(s)
		return true
	}
	v.free = append(v.free, s)
	if len(v.free) > 1 {
		v.model.idle.watch(v.model)
	}
	return true
}

// spare gives back the slots that nobody uses.
func (v *variant) spare() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range v.free {
		v.drop(s)
	}
	v.free, v.unused = nil, 0
}

// drop gives back the memory of a slot that nobody uses; v.mu is held.
func (v *variant) drop(s *slot) {
	s.unclosed.Stop()
	s.instance.Free()
	v.model.arenas.Add(-1)
}

// save writes a newly compiled plan to the cache in the background, while runs go on. The caller
// holds one of the variant's slots, so that its session keeps the weights loaded during the call. A
// plan that cannot be saved is no error: the next start compiles it again.
func (v *variant) save() {
	v.mu.Lock()
	c := v.fresh
	v.fresh = nil
	v.mu.Unlock()
	if c == nil {
		return
	}
	// A session of its own keeps the weights loaded until they are written, even if the variant is
	// retired meanwhile.
	o := v.model.options(c.Plan)
	o.Like = v.session
	s, err := engine.Load(c.Plan, o)
	if err != nil {
		return
	}
	if v.model.holdToSave() != nil {
		s.Close()
		return
	}
	go func() {
		defer v.model.background.Done()
		defer v.model.give()
		defer v.model.end()
		defer s.Close()
		_ = s.WithWeights(context.Background(), c.Save)
	}()
}

// retire frees the session, free slots at once and the others as they are put back.
func (v *variant) retire() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.retired = true
	for _, s := range v.free {
		v.drop(s)
	}
	v.free = nil
	v.session.Close()
}

// Result holds the outputs of one [Model.Run] until it is closed. It is a small value; copies are
// the same result. When all of them are lost without a Close, the garbage collector frees the
// memory some time later, with one warning a model to slog.Default. Tensors and slices that were
// got from the result do not keep it from being lost, and end with it: they lie outside of Go's
// heap, so that reading one later ends the program by a fault that Go cannot recover from. Defer
// Close where the result is made, which keeps it until then, and copy what is needed for longer
// (slices.Clone, [Tensor] Clone).
type Result struct {
	slot *slot
	use  uint64
}

// live reports whether the result was not closed yet.
func (r Result) live() bool {
	if r.slot == nil {
		return false
	}
	r.slot.variant.mu.Lock()
	defer r.slot.variant.mu.Unlock()
	return r.slot.uses == r.use
}

// Output returns the output of that name, nil when the model has none or the result is closed. The
// tensor is valid until Close and must not be written.
func (r Result) Output(name string) *Tensor {
	if !r.live() {
		return nil
	}
	for i, v := range r.slot.variant.model.graph.Outputs {
		if v.Name == name {
			return r.slot.instance.Outputs()[i]
		}
	}
	return nil
}

// Outputs returns all outputs in the model's order, nil when the result is closed. The tensors are
// valid until Close and must not be written.
func (r Result) Outputs() []*Tensor {
	if !r.live() {
		return nil
	}
	return r.slot.instance.Outputs()
}

// Close gives the result's memory to the next Run. Closing twice is allowed.
func (r Result) Close() {
	if r.slot != nil && r.slot.variant.put(r.slot, r.use) {
		r.slot.variant.model.end()
		r.slot.variant.model.give()
	}
}
