package scenario

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/share"
)

// This file is weights that jobs of one model have together. They are those of one entry of the
// plan cache, so the model's content, the shapes and the options are the same. The comparisons,
// which have no broker, share nothing.

// pair finds the jobs whose weights are another's, too.
func (r *run) pair() {
	sizes, same := map[int64]int{}, map[string]int{}
	for _, p := range r.jobs {
		if p.cached != nil && p.plan.PackedBytes > 0 {
			sizes[p.plan.PackedBytes]++
		}
	}
	for _, p := range r.jobs {
		// to tell may take a read of the model
		if p.cached != nil && sizes[p.plan.PackedBytes] > 1 {
			p.common = p.cached.Identity()
			same[p.common]++
		}
	}
	for _, p := range r.jobs {
		if same[p.common] < 2 {
			p.common = ""
		}
	}
}

// commonWeights are the weights of several jobs. It implements seat.Loaded.
type commonWeights struct {
	*resided
	session *engine.Session
}

// Reload implements seat.Loaded.
func (c commonWeights) Reload() time.Duration { return c.session.Reload() }

// Close implements seat.Loaded.
func (c commonWeights) Close() { c.session.Close() }

// shares reports whether a job has its weights together with others. A policy with a rule of its
// own for how many jobs there are, or for the units of each, is not to meet one more that is
// nobody's.
func (s *stage) shares(p *prepared) bool { return s.commons != nil && p.common != "" }

// shared is how many bytes that are.
func (s *stage) shared(p *prepared) int64 {
	if !s.shares(p) {
		return 0
	}
	return p.plan.PackedBytes
}

// keeps is how many bytes of weights that it shares stay for a job: what it is to keep beyond all
// else that it needs.
func (p *prepared) keeps() int64 {
	if !p.spec.Elastic {
		return p.plan.PackedBytes
	}
	return max(0, int64(p.spec.Keep)-(p.need()-p.plan.PackedBytes))
}

// join has a job use the weights that it has together with others, and says so in the options of
// its own session.
func (s *stage) join(ctx context.Context, t *tenant, o *engine.Options) error {
	p := t.p
	base := strings.TrimSuffix(filepath.Base(p.spec.Model), filepath.Ext(p.spec.Model))
	name := fmt.Sprintf("weights of %s, %.8s", base, p.common)
	load := func(q device.Quota) (seat.Loaded, error) {
		own := *o
		own.Quota, own.ArenaQuota = q, nil
		session, err := p.session(own)
		if err != nil {
			return nil, err
		}
		return commonWeights{newResided(session, p.plan.PackedBytes, s.broker.Now), session}, nil
	}
	use, err := s.commons.Join(ctx, p.common, name, p.plan.PackedBytes, p.keeps(), load)
	if err != nil {
		return err
	}
	shared := use.Weights().(commonWeights)
	t.use, t.free = use, use.Leave
	t.result.SharedBytes, t.result.SharedWeights = p.plan.PackedBytes, name
	own := seat.NewElastic(t.admit) // what others hold of what it keeps is waited for
	o.Quota, o.ArenaQuota = use.Quota(), own.Arenas()
	o.Like, o.OneModel = shared.session, true
	return own.Reserve(ctx, 0, p.need()-p.plan.PackedBytes)
}

// terms are what a job asks of the device, but for weights that it shares: its cap is lower by
// these, and all else that it needs stays.
func (s *stage) terms(p *prepared) share.Job {
	job := p.terms()
	if n := share.Bytes(s.shared(p)); job.Memory > 0 {
		job.Memory -= n
		job.Keep = min(job.Keep, job.Memory)
	}
	return job
}
