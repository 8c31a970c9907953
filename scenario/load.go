package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/feed"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/plan/cache"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/tensor"
)

// prepared is a job whose model is read and compiled.
type prepared struct {
	spec   Job
	model  *cache.Model // nil when the graph was given
	graph  *graph.Graph // its inputs and outputs at least
	plan   *plan.Plan
	cached *cache.Compiled // nil when the graph was given
	common string          // names weights that other jobs have, too; "" where none does
	shapes map[string][]int
	passes pass.Options
	given  map[string]*tensor.Tensor
	seed   uint64
	// one request's; made once the job's memory is granted
	inputs   []*tensor.Tensor
	request  int64    // their bytes
	training Training // of a job that follows a recipe; else nil
	saved    bool     // whether the plan was offered to the cache
	// what was found to keep the job from running, before any phase
	broken error
	wrap   func(job string, it iterate) iterate // nil outside of tests
}

// prepare reads and compiles. The error names the job and is of kind [ErrScenario], unless it is
// ctx's.
func prepare(ctx context.Context, spec Job, plans *cache.Cache, t compute.Target, threads int,
	seed uint64) (*prepared, error) {
	p := &prepared{spec: spec, seed: seed}
	return p.or(ctx, p.load(ctx, plans, t, threads))
}

// or is the job, unless there is an error.
func (p *prepared) or(ctx context.Context, err error) (*prepared, error) {
	if err == nil {
		return p, nil
	}
	err = errors.Join(err, p.close())
	if ctx.Err() != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: job %s: %w", ErrScenario, p.spec.Name, err)
}

func (p *prepared) load(ctx context.Context, plans *cache.Cache, t compute.Target,
	threads int) error {
	g := p.spec.Graph
	if g == nil {
		var err error
		p.model, err = fault.Await(ctx, func() (*cache.Model, error) {
			return plans.Model(p.spec.Model)
		})
		if err != nil {
			return err
		}
		g = p.model.Graph
	}
	p.graph = g
	var err error
	most := cmp.Or(int64(p.spec.Memory), t.Info().MemoryBytes)
	p.given, err = fault.Await(ctx, func() (map[string]*tensor.Tensor, error) {
		return reader(g, most).Files(p.spec.Inputs)
	})
	if err != nil {
		return err
	}
	maps.Copy(p.given, p.spec.Given)
	if p.shapes, err = feed.Shapes(g.Inputs, p.spec.Shapes, p.given); err != nil {
		return err
	}
	if p.request, err = feed.Bytes(g.Inputs, p.shapes, p.given); err != nil {
		return err
	}
	precision, err := pass.PrecisionOn(t, p.spec.Precision)
	if err != nil {
		return err
	}
	p.passes = pass.Options{Precision: precision}
	o := plan.Options{Target: t, Shapes: p.shapes, Threads: threads, Passes: p.passes}
	if p.model == nil {
		p.plan, err = plan.Compile(ctx, g, o)
	} else if p.cached, err = p.model.Compile(ctx, o); err == nil {
		p.plan = p.cached.Plan
	}
	if err == nil && p.overCap() != nil {
		p.shrink(ctx, o)
	}
	return err
}

// shrink makes the plan again, smaller, for a job whose cap the plan is over. Where there is no
// smaller one the job keeps its plan, and is refused with what that needs.
func (p *prepared) shrink(ctx context.Context, o plan.Options) {
	most := int64(p.spec.Memory) - (p.need() - p.plan.PeakBytes(1))
	if p.cached != nil {
		p.cached = p.cached.Within(ctx, most)
		p.plan = p.cached.Plan
	} else if p.plan.Smaller(&o, most) {
		if smaller, err := plan.Compile(ctx, p.graph, o); err == nil {
			p.plan = smaller
		}
	}
}

// overCap refuses a job whose plan and request need more than its memory cap. The broker refuses it
// in the same words; this serves the phases that have none.
func (p *prepared) overCap() error {
	need, limit := share.Bytes(p.need()), p.spec.Memory
	if limit == 0 || need <= limit {
		return nil
	}
	return fmt.Errorf("job %s: needs %v, cap %v: %w: raise memory or lower the batch", p.spec.Name,
		need.About(), limit.About(), core.ErrOverCap)
}

// need is the most memory that the job holds on its device: that of its plan, and of its request
// where that is in the same memory.
func (p *prepared) need() int64 {
	if p.plan.Remote() {
		return p.plan.PeakBytes(1)
	}
	return p.plan.PeakBytes(1) + p.request
}

func (p *prepared) close() error {
	if p.training != nil {
		return p.training.Close()
	}
	if p.model == nil {
		return nil
	}
	return p.model.Close()
}

// reader reads the inputs of a graph, of most bytes together unless that is 0.
func reader(g *graph.Graph, most int64) *feed.Reader {
	return &feed.Reader{Inputs: g.Inputs, Most: most}
}

// keep puts the plan into the cache when it is first loaded, which is before anything is measured.
// What keeps it from that is nobody's trouble.
func (p *prepared) keep(s *engine.Session) {
	if p.cached != nil && !p.saved {
		if p.cached.Fresh() {
			_ = s.WithWeights(context.Background(), p.cached.Save)
		}
		p.saved = true
	}
}

// iterate runs one request of a job; the gate is a lease.
type iterate func(ctx context.Context, g device.Gate) error

// instance loads the job's plan and returns its iteration and what frees it, which may be called
// again.
func (p *prepared) instance(o engine.Options) (iterate, func(), error) {
	it, _, free, err := p.resident(o)
	return it, free, err
}

// terms are what the job asks of the device. What it holds beside its weights stays while these are
// away.
func (p *prepared) terms() share.Job {
	job := p.spec.Job
	if job.Elastic {
		job.Keep = max(job.Keep, share.Bytes(p.need()-p.plan.PackedBytes))
	}
	return job
}

// session loads the job's plan.
func (p *prepared) session(o engine.Options) (*engine.Session, error) {
	if p.model != nil {
		o.Packed, o.Weights = p.model.Evict, p.cached.Weights
		o.Discard, o.Unchanged = p.cached.Discard, p.model.Unchanged
		p.model.Evict(nil)
	}
	s, err := engine.Load(p.plan, o)
	if err != nil {
		return nil, err
	}
	if p.model != nil {
		if err := p.model.Unchanged(); err != nil {
			s.Close()
			return nil, err
		}
	}
	p.keep(s)
	return s, nil
}

// resident is instance, and returns the session too.
func (p *prepared) resident(o engine.Options) (iterate, *engine.Session, func(), error) {
	if p.training != nil {
		it, free, err := p.trained(o)
		return it, nil, free, err
	}
	s, err := p.session(o)
	if err != nil {
		return nil, nil, nil, err
	}
	i, err := s.Take()
	if err != nil {
		s.Close()
		return nil, nil, nil, err
	}
	holder := o.Quota
	if p.plan.Remote() {
		holder = o.HostQuota
	}
	if o.ArenaQuota != nil && holder == o.Quota {
		holder = o.ArenaQuota // the request stays while weights are away
	}
	if err := holder.Reserve(p.request); err != nil {
		i.Put()
		s.Close()
		return nil, nil, nil, err
	}
	free := sync.OnceFunc(func() { i.Put(); s.Close(); holder.Release(p.request) })
	if p.inputs == nil {
		if p.inputs, err = feed.Make(p.graph.Inputs, p.shapes, p.given, p.seed); err != nil {
			free()
			return nil, nil, nil, err
		}
	}
	maps := p.model != nil && p.model.Maps(p.plan)
	run := func(ctx context.Context, g device.Gate) error {
		if err := feed.Fill(i.Inputs(), p.inputs); err != nil {
			return err
		}
		err := i.Run(ctx, g)
		if maps {
			return cmp.Or(p.model.Unchanged(), err) // whatever was made of it
		}
		return err
	}
	if p.wrap != nil {
		return p.wrap(p.spec.Name, run), s, free, nil
	}
	return run, s, free, nil
}
