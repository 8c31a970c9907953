package server

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/kept"
)

// This file answers requests that are equal to one before them as that was answered (Triton,
// docs/user_guide/response_cache.md): of models whose configuration says so, and for as long as the
// same version is loaded. Answers are not shared between accounts, so that how soon one comes tells
// nobody what others ask.

// cached reports whether answers of the version are kept.
func (v *version) cached() bool {
	c := v.source.Config
	return v.server.kept != nil && c != nil && c.ResponseCache != nil && c.ResponseCache.Enable
}

// cacheable says whether what a configuration says of the cache can hold.
func (v *version) cacheable() error {
	c := v.source.Config.ResponseCache
	if c != nil && c.Enable && (v.sequences != nil || v.decoupled || v.ensemble.stateful()) {
		return fmt.Errorf("%w: configuration: response_cache: answers in sequences, and several "+
			"to a request, are not kept", weir.ErrUnsupported)
	}
	return nil
}

// named is the key of a request, and when that was begun.
func (v *version) named(ctx context.Context, in weir.Inputs) (kept.Key, time.Time) {
	began := time.Now()
	n := kept.NewNamer()
	n.Text(auth.From(ctx).Owner())
	n.Number(v.load)
	for _, name := range slices.Sorted(maps.Keys(in)) {
		n.Text(name)
		n.Tensor(in[name])
	}
	return n.Key(), began
}

// found answers a request by an answer that is kept.
func (v *version) found(k kept.Key, began time.Time, t *task) bool {
	if t.out = v.server.kept.Get(k); t.out == nil {
		return false
	}
	t.rows = max(v.rows(t.in), 1)
	t.follow.Hit(t.rows, time.Since(began))
	return true
}

// keep keeps the answer to a request, which took before to be looked for.
func (v *version) keep(k kept.Key, before time.Duration, t *task) {
	began := time.Now()
	v.server.kept.Put(k, v.load, t.out)
	t.follow.Miss(before + time.Since(began))
}

// Kept returns how many answers are kept ([Options.Cache]), and their bytes.
func (s *Server) Kept() (answers int, bytes int64) { return s.kept.Size() }
