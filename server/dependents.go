package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
)

// This file keeps ensembles as their models are: one whose models have changed is made anew behind
// its requests, one that lacks a model, or whose models fit together no more, is not served until
// that is mended, as with Triton.

// uses are the models that an offer is made of, each once.
func (o *Offer) uses() (names []string) {
	for i := range o.Sources {
		for _, st := range stepsOf(o.Sources[i].Config) {
			if !slices.Contains(names, st.ModelName) {
				names = append(names, st.ModelName)
			}
		}
	}
	return names
}

// waves are models in the order in which they are loaded: each behind those that it is made of.
// Those that wait for each other come last, and fail.
func (s *Server) waves(models []*model) (waves [][]*model) {
	left := slices.Clone(models)
	for len(left) > 0 {
		var now, later []*model
		for _, m := range left {
			waits := slices.ContainsFunc(m.offer.uses(), func(name string) bool {
				return slices.ContainsFunc(left, func(o *model) bool { return o.name == name })
			})
			if waits {
				later = append(later, m)
			} else {
				now = append(now, m)
			}
		}
		if len(now) == 0 {
			now, later = later, nil
		}
		waves, left = append(waves, now), later
	}
	return waves
}

// marked is the mark of a source; that of an ensemble changes with its models, too.
func (s *Server) marked(src *Source) string {
	if !isEnsemble(src) || src.Mark == "" {
		return src.Mark
	}
	mark := []string{src.Mark}
	for _, st := range stepsOf(src.Config) {
		load := uint64(0)
		if m, err := s.look(st.ModelName, numberOf(&st)); err == nil {
			load = m.load
		}
		mark = append(mark, fmt.Sprint(load))
	}
	return strings.Join(mark, "/")
}

// around is a way from an ensemble back to itself over the models that it is made of, "" for none.
func (s *Server) around(name string, c *oip.Config) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[string]bool{}
	var walk func(path []string, uses []string) string
	walk = func(path, uses []string) string {
		for _, next := range uses {
			if next == name {
				return strings.Join(append(path, next), " → ")
			}
			m := s.models[next]
			if m == nil || seen[next] {
				continue
			}
			seen[next] = true
			if found := walk(append(path, next), m.offer.uses()); found != "" {
				return found
			}
		}
		return ""
	}
	o := Offer{Sources: []Source{{Config: c}}}
	return walk([]string{name}, o.uses())
}

// spread makes ensembles follow a model whose versions may have changed, and those that are made of
// them.
func (s *Server) spread(ctx context.Context, name string) {
	s.mu.Lock()
	var list []*model
	for _, m := range s.models {
		if slices.Contains(m.offer.uses(), name) && (m.lost || len(m.served) > 0) {
			m.with++
			list = append(list, m)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(list, func(a, b *model) int { return cmp.Compare(a.name, b.name) })
	for _, m := range list {
		changed, err := s.catchUp(ctx, m)
		if err != nil {
			s.o.Log.Warn("an ensemble does not follow its models", "model", m.name, "error", err)
		}
		if changed {
			s.spread(ctx, m.name)
		}
	}
}

// catchUp is again of an ensemble in which the caller is counted, whose turn it waits for.
func (s *Server) catchUp(ctx context.Context, m *model) (changed bool, err error) {
	defer s.leaveModel(m)
	if m.take(ctx) != nil {
		return false, nil // the server ends
	}
	defer func() { <-m.turn }()
	return s.again(ctx, m)
}

// again makes an ensemble be what its models are now. Its turn is held.
func (s *Server) again(ctx context.Context, m *model) (changed bool, err error) {
	s.mu.Lock()
	o, served, lost := m.offer, m.served, m.lost
	s.mu.Unlock()
	if !lost && len(served) == 0 {
		return false, nil // somebody has unloaded it meanwhile
	}
	for i := range o.Sources {
		for _, st := range stepsOf(o.Sources[i].Config) {
			if _, err := s.member(m.name, &st); errors.Is(err, errMember) {
				return s.lack(ctx, m, err)
			}
		}
		was := numbered(served, o.Sources[i].Version)
		changed = changed || was == nil || was.source.Mark != s.marked(&o.Sources[i])
	}
	if !changed {
		return false, nil
	}
	err = s.serve(ctx, m, o)
	s.remember(ctx, m)
	if unfit := (errUnfit{}); errors.As(err, &unfit) {
		_, late := s.lack(ctx, m, unfit)
		return true, errors.Join(err, late)
	}
	return true, err
}

// lack ends an ensemble until its models are there again. Its turn is held.
func (s *Server) lack(ctx context.Context, m *model, why error) (changed bool, err error) {
	s.mu.Lock()
	changed = len(m.served) > 0
	m.why = text(why)
	s.mu.Unlock()
	if changed {
		err = s.unserve(ctx, m)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.lost = true
	return changed, err
}

// loadMembers loads the models of an offer that are not served, as tritonserver does.
func (s *Server) loadMembers(ctx context.Context, o *Offer) error {
	above, _ := ctx.Value(aboveKey{}).([]string)
	if slices.Contains(above, o.Name) {
		return oip.Faultf(oip.Invalid, "circular dependency between ensembles: %s",
			strings.Join(append(above, o.Name), " → "))
	}
	ctx = context.WithValue(ctx, aboveKey{}, append(slices.Clip(above), o.Name))
	for _, name := range o.uses() {
		if _, err := s.look(name, ""); err == nil {
			continue
		}
		if err := auth.Check(ctx, "model load", auth.Load, name); err != nil {
			return fmt.Errorf("ensemble '%s' depends on '%s', which is not loaded: %w", o.Name,
				name, err)
		}
		if err := s.LoadModel(ctx, name, nil); err != nil {
			f := *fault(err)
			f.Kind = oip.Invalid
			f.Text = fmt.Sprintf("ensemble '%s' depends on '%s' which is not valid: %s", o.Name,
				name, f.Text)
			return &f
		}
	}
	return nil
}

// mayAsk holds that who brings along how a model is made of others may ask those.
func mayAsk(ctx context.Context, o *Offer) error {
	for _, name := range o.uses() {
		if err := auth.Check(ctx, "infer", auth.Infer, name); err != nil {
			return fmt.Errorf("model %s: parameter config: ensemble of %s: %w", o.Name, name, err)
		}
	}
	return nil
}

// unloadMembers unloads the models of an ensemble that no other needs, and that who asks may
// unload.
func (s *Server) unloadMembers(ctx context.Context, e *model) error {
	s.mu.Lock()
	uses := e.offer.uses()
	needed := map[string]bool{}
	for _, m := range s.models {
		if len(m.served) > 0 {
			for _, name := range m.offer.uses() {
				needed[name] = true
			}
		}
	}
	s.mu.Unlock()
	var errs []error
	for _, name := range uses {
		if !needed[name] && auth.May(ctx, auth.Load, name) {
			errs = append(errs, s.UnloadModel(ctx, name, oip.Parameters{"unload_dependents": true}))
		}
	}
	return errors.Join(errs...)
}

// aboveKey is that of the ensembles that a model is being loaded for, in a context.
type aboveKey struct{}
