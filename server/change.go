package server

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weirgpu/weir/server/oip"
)

// This file is how the versions of a model are changed while the server answers: by requests to
// load, to unload, and to roll back.

// LoadModel makes a model serve what the catalogue has of it now, or what the parameters config and
// file: bring along: versions that are new or have
// changed are loaded behind the requests for those that are served, and take over once they are
// ready. Those that fail leave the others as they are. It returns once that is done, or ctx is, and
// goes on in the latter case, once the model was brought. The error is an *oip.Fault.
func (s *Server) LoadModel(ctx context.Context, name string, p oip.Parameters) error {
	over, err := overridden(name, p)
	if err != nil {
		return err
	}
	o, err := s.offer(ctx, name, over)
	if err != nil {
		return err
	}
	if over != nil {
		if err := mayAsk(ctx, &o); err != nil {
			return err
		}
	}
	if err := s.loadMembers(ctx, &o); err != nil {
		return err
	}
	return s.changing(ctx, name, func(ctx context.Context, m *model) error {
		return s.anew(ctx, m, o)
	})
}

// anew makes a model serve what the catalogue has of it now. Its turn is held.
func (s *Server) anew(ctx context.Context, m *model, o Offer) error {
	defer s.remember(ctx, m)
	s.mu.Lock()
	m.asked = o.marks()
	s.mu.Unlock()
	return s.serve(ctx, m, o)
}

// UnloadModel ends all versions of a model, and with the parameter unload_dependents those of the
// models that it is made of, unless another ensemble that is served is too, or who asks may not
// unload them. Requests that were taken are answered; it waits a moment for them and for the memory
// to be given back, and the index tells when that is done. The error is an *oip.Fault.
func (s *Server) UnloadModel(ctx context.Context, name string, p oip.Parameters) error {
	if s.o.Fixed {
		return fixed(name)
	}
	var m *model
	err := s.changingKnown(ctx, name, func(ctx context.Context, known *model) error {
		m = known
		return s.unserve(ctx, m)
	})
	if all, _ := p["unload_dependents"].(bool); err == nil && all {
		err = s.unloadMembers(ctx, m)
	}
	return err
}

// Rollback makes a model serve again what it served until another version became the newest. Once
// more, it goes forth again. What is then served stays until somebody loads the model, or
// [Server.Watch] finds something else of it, with [Options.State] over the end of the server. The
// error is an *oip.Fault.
func (s *Server) Rollback(ctx context.Context, name string) error {
	s.mu.Lock()
	refused := s.o.Fixed && !s.watched
	s.mu.Unlock()
	if refused {
		return fixed(name)
	}
	return s.changingKnown(ctx, name, func(ctx context.Context, m *model) error {
		s.mu.Lock()
		before := m.before
		s.mu.Unlock()
		if before == nil {
			return oip.Faultf(oip.Invalid, "model %s: no other version was served before this one",
				name)
		}
		for _, src := range before {
			if src.Stale != nil && src.Stale() {
				return oip.Faultf(oip.Invalid, "model %s: version %d is no longer in the folder "+
					"as it was served: load what is there", name, src.Version)
			}
		}
		defer s.remember(ctx, m)
		return s.serve(ctx, m, Offer{Name: name, Sources: before, back: true})
	})
}

// fixed is of the kind that tritonserver answers so.
func fixed(name string) error {
	return oip.Faultf(oip.Unavailable, "model %.200q: this server loads no models on request", name)
}

func unknown(name string) error {
	// the first words are those that tritonclient's users look for
	return oip.Faultf(oip.NotFound, "Request for unknown model %.200q: GET /v2/repository/index "+
		"lists those that there are", name)
}

// offer asks the catalogue for a model that somebody asks to be loaded.
func (s *Server) offer(ctx context.Context, name string, over *overrides) (o Offer, err error) {
	if s.o.Fixed {
		return o, fixed(name)
	}
	if over != nil {
		from, ok := s.catalogue().(*Folder)
		if !ok {
			return o, oip.Faultf(oip.Unsupported, "model %.200q: config, file: this server has "+
				"no folder of models: begin it with --models", name)
		}
		o, err = from.overridden(ctx, name, over)
	} else {
		o, err = s.catalogue().Model(ctx, name)
	}
	switch {
	case missing(err):
		return o, oip.Faultf(oip.NotFound, "failed to load model %.200q: there is none of that "+
			"name", name)
	case err != nil:
		return o, loadFault(err)
	}
	return o, nil
}

// loadFault is what a client is told of a model that cannot be loaded: that is the model's fault,
// or for want of memory.
func loadFault(err error) *oip.Fault {
	f := *fault(err)
	if f.Kind == oip.Internal {
		f.Kind = oip.Invalid
	}
	return &f
}

// catalogue is that of the options, or what LoadAll had.
func (s *Server) catalogue() Catalogue {
	if s.o.Catalogue != nil {
		return s.o.Catalogue
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.given
}

// changing lets f change the versions of a model, one at a time, and returns once it has, or ctx is
// done. A name that no model has becomes that of one.
func (s *Server) changing(ctx context.Context, name string,
	f func(context.Context, *model) error) error {
	s.mu.Lock()
	if s.draining {
		s.mu.Unlock()
		return errStopping
	}
	m := s.model(name)
	m.with++
	s.mu.Unlock()
	return s.change(ctx, m, f)
}

// changingKnown is changing of a model that is known: to look first would find one that is gone a
// moment later, and make one of its name that nobody asked for.
func (s *Server) changingKnown(ctx context.Context, name string,
	f func(context.Context, *model) error) error {
	s.mu.Lock()
	m := s.models[name]
	if m == nil || s.draining {
		s.mu.Unlock()
		if m == nil {
			return unknown(name)
		}
		return errStopping
	}
	m.with++
	s.mu.Unlock()
	return s.change(ctx, m, f)
}

// change lets f change the versions of a model, in which the caller is counted.
func (s *Server) change(ctx context.Context, m *model,
	f func(context.Context, *model) error) error {
	if err := m.take(ctx); err != nil {
		s.leaveModel(m)
		return fault(err)
	}
	done := make(chan error, 1)
	s.run(func() {
		err := func() error {
			defer s.leaveModel(m)
			defer func() { <-m.turn }()
			return f(s.life, m)
		}()
		s.spread(s.life, m.name)
		done <- err
	})
	select {
	case err := <-done:
		if err != nil {
			return loadFault(err)
		}
		return nil
	case <-ctx.Done():
		return fault(ctx.Err())
	}
}

// serve makes a model serve the sources of an offer and no others. The model's turn is held.
func (s *Server) serve(ctx context.Context, m *model, o Offer) error {
	s.mu.Lock()
	served := m.served
	m.offer, m.why, m.lost, m.gone = o, "", false, false
	s.mu.Unlock()
	var list []*fresh
	var before []Source
	ends := served
	for _, src := range o.Sources {
		src.Mark = s.marked(&src)
		was := numbered(served, src.Version)
		ends = without(ends, was)
		if was == nil || src.Mark == "" || was.source.Mark != src.Mark {
			list = append(list, &fresh{Source: src, model: m, v: s.takeBack(m, &src)})
		}
	}
	for _, v := range served {
		src := v.source
		src.learned = v.learned()
		before = append(before, src)
	}
	why := asked
	if len(served) > 0 {
		why = swapped
	}
	s.prepareNew(ctx, m, list, why)
	err := s.settle(m, list, ends)
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := m.newest(); len(served) > 0 && now != nil && now != served[len(served)-1] {
		m.before = before
	}
	if err == nil {
		m.missing = false
	}
	if err == nil || !slices.Equal(m.served, served) { // else it goes on as it was
		if m.back = nil; o.back {
			m.back = o.Sources
		}
	}
	m.lost = errors.Is(err, errMember) && len(m.served) == 0
	return err
}

// prepareNew prepares those of versions that were not taken back. What a rollback would serve makes
// room for those that are ready. The model's turn is held.
func (s *Server) prepareNew(ctx context.Context, m *model, list []*fresh, why occasion) {
	list = slices.DeleteFunc(slices.Clone(list), func(f *fresh) bool { return f.v != nil })
	if len(list) == 0 {
		return
	}
	s.prepare(ctx, list, why)
	if slices.ContainsFunc(list, func(f *fresh) bool { return f.err == nil }) {
		s.mu.Lock()
		m.clear()
		s.mu.Unlock()
	}
}

// linger is how long an unload waits for requests under way.
const linger = time.Second

// unserve ends all versions of a model. Its turn is held.
func (s *Server) unserve(ctx context.Context, m *model) error {
	s.mu.Lock()
	served := m.served
	m.missing, m.lost = false, false
	s.mu.Unlock()
	if err := s.settle(m, nil, served); err != nil {
		return err
	}
	late := time.NewTimer(linger)
	defer late.Stop()
	for _, d := range s.ending(m, served) {
		select {
		case <-d.gone:
		case <-late.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}
