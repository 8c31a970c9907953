package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/queue"
	"github.com/weirgpu/weir/server/telemetry"
)

// This file is how versions come to be served: each is opened, admitted and warmed up, behind the
// requests for those that are served, and takes over once it is ready. What fails changes nothing
// but what the index says.

// fresh is a version on its way from its source to its requests.
type fresh struct {
	Source
	model  *model
	on     *weir.Model
	shapes map[string][]int // of inputs with open dimensions
	v      *version
	err    error
	// ensemble is how it is made of other models; nil: it is a model of its own. Without on it is a
	// pipeline.
	ensemble *ensemble
}

// LoadAll loads every source, where the server begins, and makes the server ready if it could load
// all of them. One that it could not load stands in the repository's index with the reason, and the
// others are served; the error joins the reasons. Sources of one name are versions that are served
// side by side.
//
// A model whose inputs all have known shapes is promised what it needs. The others are promised
// what they need for ones in the place of open dimensions, or a little where they do not take that;
// and later, as long as memory is left, what their requests need.
func (s *Server) LoadAll(ctx context.Context, sources []Source) error {
	defer s.loaded.Store(true)
	s.mu.Lock()
	s.given = offers(sources)
	for _, o := range s.given {
		s.model(o.Name).asked = o.marks()
	}
	s.mu.Unlock()
	sources = s.recalled(ctx, sources)
	list, models := s.sorted(sources)
	for i, m := range models {
		if err := m.take(ctx); err != nil {
			for _, taken := range models[:i] {
				<-taken.turn
			}
			return err
		}
	}
	var errs []error
	for _, models := range s.waves(models) {
		var some []*fresh
		for _, m := range models {
			some = append(some, of(list, m)...)
		}
		for _, f := range some {
			f.Mark = s.marked(&f.Source)
		}
		s.prepare(ctx, some, beginning)
		for _, m := range models {
			err := s.settle(m, of(some, m), nil)
			s.mu.Lock()
			m.missing = err != nil
			m.lost = errors.Is(err, errMember)
			s.mu.Unlock()
			<-m.turn
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// sorted are versions to be loaded, and their models, each once.
func (s *Server) sorted(sources []Source) (list []*fresh, models []*model) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[*model]bool{}
	for _, src := range sources {
		m := s.model(src.Name)
		list = append(list, &fresh{Source: src, model: m})
		if !seen[m] {
			seen[m] = true
			models = append(models, m)
			m.offer = Offer{Name: m.name, back: len(m.back) > 0}
		}
		m.offer.Sources = append(m.offer.Sources, src)
	}
	return list, models
}

// of are those of a model.
func of(list []*fresh, m *model) (some []*fresh) {
	for _, f := range list {
		if f.model == m {
			some = append(some, f)
		}
	}
	return some
}

// take waits until nobody else changes the versions of a model.
func (m *model) take(ctx context.Context) error {
	select {
	case m.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// occasion is why versions are loaded, which says what may wait for what is made ready beforehand.
type occasion int

const (
	// beginning is before the server takes requests: versions are warmed up.
	beginning occasion = iota
	// asked is of a model of which nothing is served: its first request is likely to wait for the
	// load, and computes the same as a run of ones would before it.
	asked
	// swapped is of a model whose requests are answered meanwhile: versions are warmed up, and know
	// how their requests may be put together.
	swapped
)

// prepare makes versions ready for requests, one after another. Those that fail have the reason.
func (s *Server) prepare(ctx context.Context, list []*fresh, why occasion) {
	select {
	case s.loading <- struct{}{}:
		defer func() { <-s.loading }()
	case <-ctx.Done():
		for _, f := range list {
			f.err = ctx.Err()
		}
		return
	}
	for _, f := range list {
		s.stand(f, stateLoading, "")
		if f.on, f.err = s.open(f); f.err == nil && f.on != nil {
			f.shapes = ones(f.on)
		}
	}
	// those that take what they need come first, so that what is left is known
	for _, open := range []bool{false, true} {
		for _, f := range list {
			if f.err == nil && (len(f.shapes) > 0) == open {
				f.err = s.ready(ctx, f, why)
			}
		}
	}
}

// stand says in the index where a version is that is not served.
func (s *Server) stand(f *fresh, state, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.model.others[f.Version] = standing{state, reason}
}

// ready makes one version ready.
func (s *Server) ready(ctx context.Context, f *fresh, why occasion) error {
	v, err := s.admit(ctx, f)
	if err != nil && f.on != nil {
		err = errors.Join(err, f.on.Close())
		if f.ensemble != nil && errors.Is(err, weir.ErrMemory) {
			f.on, f.ensemble.why = nil, "there is no memory for a graph of its own"
			v, err = s.admit(ctx, f)
		}
	}
	if err != nil {
		return err
	}
	if err := v.warm(ctx, why); err != nil {
		return errors.Join(err, s.discard(v))
	}
	if why == swapped && v.on != nil {
		v.begun = true // nobody else has it yet
		v.learn(v.life)
	}
	v.hasty.Store(why == asked && v.on != nil)
	f.v = v
	return nil
}

// admit makes a version whose job has what is left over until it takes over.
func (s *Server) admit(ctx context.Context, f *fresh) (*version, error) {
	v, err := f.described()
	if err != nil {
		return nil, err
	}
	v.n, v.source, v.server, v.model, v.load = f.Version, f.Source, s, f.model, s.loads.Add(1)
	v.ensemble = f.ensemble
	if err := v.configure(); err != nil {
		return nil, err
	}
	if v.on == nil {
		v.pipe()
		return v, nil
	}
	if err := v.padded(f.on.Metadata().Properties); err != nil {
		return nil, err
	}
	s.mu.Lock()
	most, kept := f.model.terms.Memory, f.model.terms.Keep
	s.mu.Unlock()
	j := weir.Job{Name: s.jobName(v), Shapes: f.shapes,
		Share: weir.Share{Class: weir.Opportunistic, Memory: most, Elastic: s.o.Lend,
			Keep: kept}}
	v.job, err = s.fit(ctx, v, &j)
	// Who has given memory up may have had it again before this asks for it.
	for tries := 0; tries < mostRooms && lacks(err) && s.makeRoom(ctx); tries++ {
		v.job, err = s.fit(ctx, v, &j)
	}
	if err != nil {
		return nil, err
	}
	v.bound(most)
	v.life, v.end = context.WithCancel(s.life)
	v.room.open, v.room.least = len(j.Shapes) > 0 || j.Memory > 0, v.job.Usage().Share.Memory
	s.mu.Lock()
	v.counts = s.rec.Model(v.name, v.number, j.Name)
	v.model.counted[v.number]++
	s.mu.Unlock()
	v.members = v.ensemble.members()
	v.batches.Store(&batching{most: 1})
	v.queue, err = queue.New(v.admission(), queue.Options[*task]{Run: v.run, Drop: (*task).free,
		Admitted: func(t *task) { t.follow.Mark(telemetry.Admitted) }})
	return v, err
}

// described is what the version's metadata say.
func (f *fresh) described() (*version, error) {
	number := strconv.FormatInt(f.Version, 10)
	if f.on == nil {
		return f.ensemble.described(f.Name, number), nil
	}
	return describe(f.on, f.Name, number)
}

// jobName is what a version's job is called: the model's name and the number, with one more number
// while another job of the version is there.
func (s *Server) jobName(v *version) string {
	taken := map[string]bool{}
	for _, j := range s.host.Status().Jobs {
		taken[j.Name] = true
	}
	base := v.name + "/" + v.number
	name := base
	for i := 2; taken[name]; i++ {
		name = base + "~" + strconv.Itoa(i)
	}
	return name
}

// runs is the name of a version's job, "" of a pipeline.
func (v *version) runs() string {
	if v.job == nil {
		return ""
	}
	return v.job.Usage().Name
}

// fit admits a version's job. Where memory is short, others give back what they are promised beyond
// what they hold.
func (s *Server) fit(ctx context.Context, v *version, j *weir.Job) (t *weir.Tenant, err error) {
	err = s.roomy(ctx, func() (err error) {
		t, err = s.admitted(ctx, v, j)
		return err
	})
	if !lacks(err) {
		return t, err
	}
	select {
	case s.promising <- struct{}{}:
		defer func() { <-s.promising }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.tighten()
	if t, err = s.admitted(ctx, v, j); errors.Is(err, weir.ErrMemory) {
		st := s.host.Status()
		err = fmt.Errorf("%w: %v of the device's %v are promised: unload a model, or have one "+
			"take less", err, st.Promised.About(), st.Memory.About())
	}
	return t, err
}

// admitted admits a version's job; where its model cannot be compiled for j.Shapes, the first
// request decides for which.
func (s *Server) admitted(ctx context.Context, v *version, j *weir.Job) (*weir.Tenant, error) {
	t, err := s.host.Admit(ctx, v.on, *j)
	if len(j.Shapes) > 0 && !errors.Is(err, weir.ErrMemory) && err != nil {
		j.Shapes = nil
		if j.Memory == 0 {
			j.Memory = min(s.freed(ctx, unknownNeed), unknownNeed)
		}
		t, err = s.host.Admit(ctx, v.on, *j)
	}
	return t, err
}

// settle makes versions of a model take over that are ready, and those that are to end. The error
// joins the reasons of those that are not ready: then no version ends but those that are replaced.
func (s *Server) settle(m *model, list []*fresh, ends []*version) error {
	s.mu.Lock()
	served := m.served
	for n, st := range m.others {
		if st.state == stateUnavailable {
			delete(m.others, n)
		}
	}
	s.mu.Unlock()
	var errs []error
	for _, f := range list {
		if f.err != nil {
			errs, ends = append(errs, s.failed(f)), nil
		}
	}
	for _, f := range list {
		if f.err == nil {
			served, ends = put(served, f.v, ends)
		}
	}
	for _, v := range ends {
		served = without(served, v)
	}
	err := s.publish(m, served, ends)
	for _, f := range list {
		if f.err = cmp.Or(f.err, err); err != nil && f.v != nil {
			errs = append(errs, s.failed(f), s.discard(f.v))
		}
	}
	return errors.Join(errs...)
}

// failed says in the index why a version is not served.
func (s *Server) failed(f *fresh) error {
	err := fmt.Errorf("model %s, version %d: %w", f.Name, f.Version, f.err)
	if f.Version == 0 {
		err = fmt.Errorf("model %s: %w", f.Name, f.err)
	}
	s.stand(f, stateUnavailable, text(err))
	return err
}

// put puts a version in its place among those that are served. One of the same number ends.
func put(served []*version, v *version, ends []*version) ([]*version, []*version) {
	list := make([]*version, 0, len(served)+1)
	for _, old := range served {
		if old.n == v.n {
			ends = append(without(ends, old), old)
			continue
		}
		list = append(list, old)
	}
	at := 0
	for at < len(list) && list[at].n < v.n {
		at++
	}
	list = append(list, nil)
	copy(list[at+1:], list[at:])
	list[at] = v
	return list, ends
}

// without is a list of its own that does not have a version.
func without(list []*version, v *version) []*version {
	some := make([]*version, 0, len(list))
	for _, other := range list {
		if other != v {
			some = append(some, other)
		}
	}
	return some
}

// publish makes versions those that answer, at one moment, and ends others. On an error nothing has
// changed.
func (s *Server) publish(m *model, served, ends []*version) error {
	m.sharing <- struct{}{}
	defer func() { <-m.sharing }()
	s.mu.Lock()
	before := m.newest()
	terms := m.terms
	s.mu.Unlock()
	var now *version
	if len(served) > 0 {
		now = served[len(served)-1]
	}
	if err := handOver(before, now, terms); err != nil {
		return err
	}
	for _, v := range served {
		if v != now {
			_ = v.setTerms(beside(terms)) // which guarantee nothing
		}
	}
	s.mu.Lock()
	m.served = served
	if len(served)+len(ends)+len(m.others) == 0 {
		m.others[0] = standing{stateUnavailable, unloaded}
	}
	for _, v := range served {
		if m.others[v.n].state == stateLoading {
			delete(m.others, v.n)
		}
		v.counts.Runs(v.runs())
	}
	if now != before {
		m.clear() // another is what a rollback serves
	}
	for _, v := range ends {
		if m.version(v.number) == nil {
			m.others[v.n] = standing{stateUnloading, ""}
		}
		// what is told of jobs by number is told of the one that is served
		aside := now != before && now != nil && m.version(v.number) == nil
		d := m.leaves(v, aside)
		s.beside(func() { s.retire(v, d) })
	}
	s.mu.Unlock()
	for _, v := range served {
		if v.on != nil {
			v.study()
		}
	}
	return nil
}

// beside are the terms of versions beside the newest.
func beside(terms weir.Share) weir.Share {
	terms.Compute = 0
	return terms
}

// handOver gives the terms of the newest version to the next one.
func handOver(from, to *version, terms weir.Share) error {
	if from == to || to == nil {
		return nil
	}
	if from != nil && terms.Compute > 0 {
		if err := from.setTerms(beside(terms)); err != nil {
			return err
		}
	}
	err := to.setTerms(terms)
	if err != nil && from != nil {
		err = errors.Join(err, from.setTerms(terms))
	}
	return err
}

// setTerms changes the class, guarantee and limit of a version, and leaves its memory.
func (v *version) setTerms(terms weir.Share) error {
	if v.job == nil {
		return nil // its models have theirs
	}
	err := v.promise(v.server.life, func(now *weir.Share) error {
		now.Class, now.Compute, now.Limit = terms.Class, terms.Compute, terms.Limit
		if now.Keep = terms.Keep; now.Memory < terms.Keep {
			now.Keep = now.Memory
		}
		return v.job.SetShare(*now)
	})
	if err != nil {
		return err
	}
	return v.queue.Set(v.admission())
}

// retire ends a version once its requests are answered and its sequences are over, or sets it aside
// for a rollback. Where the version is served again meanwhile, or the server ends, and all with it,
// nothing is left to be done.
func (s *Server) retire(v *version, d *departure) {
	if s.last(v, d) && !s.setAside(v, d) {
		s.finish(v, d)
	}
}

// finish ends a version that has left, and gives back its memory as soon as its answers are sent.
func (s *Server) finish(v *version, d *departure) {
	defer close(d.gone)
	if err := s.discard(v); err != nil {
		s.o.Log.Warn("a version that is no longer served did not end well", "model", v.name,
			"version", v.number, "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v.model.left = without(v.model.left, v)
	v.model.unlist(v)
	s.forgetGone(v.model)
}

// unlist takes a version out of the index, unless it is served again or is to be; s.mu is held.
func (m *model) unlist(v *version) {
	if m.others[v.n].state != stateUnloading {
		return
	}
	delete(m.others, v.n)
	if len(m.served) == 0 {
		m.others[v.n] = standing{stateUnavailable, cmp.Or(m.why, unloaded)}
	}
}

// discard ends a version that has no requests.
func (s *Server) discard(v *version) error {
	v.end()
	var err error
	if v.on != nil {
		v.endStudies()
		v.queue.Leave(true)
		v.sequences.close(s)
		err = v.on.Close()
	}
	s.kept.Forget(v.load)
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.model.counted[v.number]--; v.model.counted[v.number] == 0 {
		delete(v.model.counted, v.number)
		s.rec.Forget(v.name, v.number)
	}
	return err
}
