package server

import (
	"context"
	"errors"
	"slices"

	"github.com/weirgpu/weir"
)

// This file is the memory of models whose inputs have open dimensions. What they need is known of
// the shapes that were compiled only, so that is what they are promised, and more once a request
// needs more, as long as some is left: else the request is refused, with the numbers.

// unknownNeed is what a model is promised first of which no shapes can be compiled.
const unknownNeed = 64 * weir.MiB

// room is what is known of the memory of a version. It is used by the one batch that runs.
type room struct {
	open  bool       // whether its need depends on requests
	least weir.Bytes // that it is promised in any case
	seen  [][]int
}

// spare is how much more than a version holds it should be promised, so that plans for some shapes
// need not make room for those of others.
const spare = 2

// compute is weir.Model.Run, with more memory promised if that is what it takes.
func (v *version) compute(ctx context.Context, in weir.Inputs) (weir.Result, error) {
	r, err := v.on.Run(ctx, in)
	switch {
	case !v.room.open || err != nil && !outgrows(err):
		return r, err
	case err != nil && v.server.o.Lend && v.job.Usage().Shared == 0:
		why := err
		err = v.roomy(ctx, func() (err error) {
			r, err = v.raised(ctx, in, why)
			return err
		})
		return r, err
	case err != nil:
		return v.grow(ctx, in, err)
	case v.server.o.Lend:
	case v.room.fresh(v, in):
		v.ease()
	}
	return r, nil
}

// fresh reports whether inputs have shapes that were not run of late.
func (r *room) fresh(v *version, in weir.Inputs) bool {
	var some [16]int // most inputs have few dimensions
	shape := some[:0]
	for _, f := range v.types {
		shape = append(append(shape, in[f.Name].Shape...), -1)
	}
	for _, s := range r.seen {
		if slices.Equal(s, shape) {
			return false
		}
	}
	if len(r.seen) >= shapes {
		r.seen = r.seen[1:]
	}
	r.seen = append(r.seen, slices.Clone(shape))
	return true
}

// shapes is for how many shapes a version keeps plans: weir.WithMaxShapes.
const shapes = 32

// promise changes what a version is promised, which nobody else changes meanwhile.
func (v *version) promise(ctx context.Context, change func(now *weir.Share) error) error {
	select {
	case v.server.promising <- struct{}{}:
		defer func() { <-v.server.promising }()
	case <-ctx.Done():
		return ctx.Err()
	}
	share := v.job.Usage().Share
	return change(&share)
}

// left is what a version may be promised beyond its share: what is left of the device, up to the
// cap that somebody has set.
func (v *version) left(now *weir.Share) weir.Bytes {
	free := v.server.Free()
	if now.Elastic {
		free += now.Keep - now.Memory // what it does not keep is promised to nobody
	}
	if most := weir.Bytes(v.most.Load()); most > 0 {
		free = min(free, most-now.Memory)
	}
	return free
}

// ease promises a version more than it holds, if there is some left. What a rollback would serve
// leaves for it, and no request waits until it has.
func (v *version) ease() {
	u := v.job.Usage()
	if now := &u.Share; v.left(now) < min(spare*u.Memory, v.ceiling())-now.Memory {
		v.server.depart(true)
	}
	_ = v.promise(v.server.life, func(share *weir.Share) error {
		u := v.job.Usage()
		want := min(spare*u.Memory, share.Memory+v.left(share))
		if want <= share.Memory {
			return nil
		}
		share.Memory = want
		return v.job.SetShare(*share)
	}) // without it plans make room for each other, which takes time and nothing else
}

// grow is larger, with the memory that is lent if that is what it takes.
func (v *version) grow(ctx context.Context, in weir.Inputs, why error) (weir.Result, error) {
	var r weir.Result
	err := v.roomy(ctx, func() (err error) {
		r, err = v.larger(ctx, in, why)
		return err
	})
	if outgrows(err) && v.queue != nil && !v.full() && v.server.recall(ctx) {
		return v.larger(ctx, in, why)
	}
	return r, err
}

// raised runs a request that needs more memory than the version may hold, where memory is lent: the
// cap is raised to all that is not kept for others, of which nobody is the poorer. It is not held
// meanwhile what versions are promised: the Run may wait for others to close their results. A
// version that has its weights together with others keeps all else, so others are the poorer.
func (v *version) raised(ctx context.Context, in weir.Inputs, why error) (weir.Result, error) {
	err := v.promise(ctx, func(share *weir.Share) error {
		free := v.left(share)
		if free <= 0 {
			return why
		}
		share.Memory += free
		return v.job.SetShare(*share)
	})
	if err != nil {
		return weir.Result{}, err
	}
	return v.on.Run(ctx, in)
}

// larger runs a request that needs more memory than the version is promised: with all that is left,
// of which what it does not need is given back. why is the error without it.
func (v *version) larger(ctx context.Context, in weir.Inputs, why error) (weir.Result, error) {
	var r weir.Result
	err := v.promise(ctx, func(share *weir.Share) error {
		free := v.left(share)
		if free <= 0 {
			return why
		}
		before := share.Memory
		share.Memory += free
		if err := v.job.SetShare(*share); err != nil {
			return errors.Join(why, err)
		}
		var err error
		r, err = v.on.Run(ctx, in)
		share.Memory = max(before, min(share.Memory, spare*v.job.Usage().Memory))
		if late := v.job.SetShare(*share); late != nil {
			v.server.o.Log.Warn("memory that a model does not need stays promised to it", "model",
				v.name, "error", late)
		}
		return err
	})
	return r, err
}

// tighten takes back what versions are promised beyond what they hold and were promised first.
// promising is held.
func (s *Server) tighten() {
	for _, v := range s.all() {
		if v.job == nil {
			continue
		}
		u := v.job.Usage()
		share := u.Share
		if share.Memory = max(v.room.least, u.Memory); share.Memory < u.Share.Memory {
			_ = v.job.SetShare(share) // it has come to hold more meanwhile
		}
	}
}
