package server

import (
	"context"
	"strings"
	"time"
)

// Watch looks at the catalogue each period until ctx is done: models that are new or have changed
// are loaded, and those that are gone are unloaded. What fails is logged, and tried again once it
// changes. It is for a server that is [Options.Fixed].
func (s *Server) Watch(ctx context.Context, every time.Duration) {
	seen := s.watching()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.follow(ctx, seen)
	}
}

// watching begins to follow the catalogue, and returns the marks of what it had, by model.
func (s *Server) watching() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watched = true
	seen := map[string]string{}
	for _, o := range s.given {
		seen[o.Name] = s.model(o.Name).asked
	}
	return seen
}

// marks change with what the offer has.
func (o *Offer) marks() string {
	var all strings.Builder
	for _, src := range o.Sources {
		all.WriteString(src.Mark)
		all.WriteByte('\n')
	}
	return all.String()
}

// follow makes the server serve what the catalogue has now, of which seen is what it had.
func (s *Server) follow(ctx context.Context, seen map[string]string) {
	list, err := s.catalogue().Models(ctx)
	if err != nil {
		s.o.Log.Warn("the folder of models cannot be read: all stay as they are", "error", err)
		return
	}
	there := map[string]bool{}
	for _, o := range list {
		there[o.Name] = true
		marks := o.marks()
		if before, known := seen[o.Name]; known && before == marks {
			continue
		}
		seen[o.Name] = marks
		err := s.changing(ctx, o.Name, func(ctx context.Context, m *model) error {
			return s.anew(ctx, m, o)
		})
		if err != nil {
			s.o.Log.Warn("a model in the folder has changed and cannot be loaded", "error", err)
		}
	}
	for name := range seen {
		if there[name] {
			continue
		}
		delete(seen, name)
		if err := s.changing(ctx, name, s.remove); err != nil {
			s.o.Log.Warn("a model is gone and cannot be unloaded", "model", name, "error", err)
		}
	}
}

// remove ends a model, to be forgotten. Its turn is held.
func (s *Server) remove(ctx context.Context, m *model) error {
	err := s.unserve(ctx, m)
	s.write(ctx, m, "")
	s.mu.Lock()
	defer s.mu.Unlock()
	m.gone = true
	return err
}

// leaveModel ends that somebody changes a model or waits for its turn.
func (s *Server) leaveModel(m *model) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.with--
	s.forgetGone(m)
}

// forgetGone forgets a model that is gone once its last sequences are over and nobody waits to
// change it, who would serve what nobody finds; s.mu is held.
func (s *Server) forgetGone(m *model) {
	if m.gone && len(m.served)+len(m.left)+m.with == 0 && s.models[m.name] == m {
		delete(s.models, m.name)
	}
}
