package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/internal/sorting"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/repo"
	"github.com/weirgpu/weir/server/sealed"
)

// Source is a model to be served. Open is called when it is loaded, and again for each batch job
// with it.
type Source struct {
	Name    string
	Version int64 // from 1 on
	Open    func() (*weir.Model, error)
}

// Sources opens each version with the options. Those that are encrypted at rest are opened with
// keys, which is nil where there are none, into memory: nothing of them is written anywhere.
func Sources(found []repo.Version, keys sealed.Keys, o ...weir.Option) []Source {
	var list []Source
	for _, v := range found {
		list = append(list, Source{v.Name, v.Number, func() (*weir.Model, error) {
			if !v.Sealed {
				return weir.Open(v.Path, o...)
			}
			plain, err := sealed.Open(context.Background(), v.Path, keys)
			if err != nil {
				return nil, err
			}
			return weir.Load(plain, o...)
		}})
	}
	return list
}

// LoadAll loads every source, and makes the server ready if it could load all of them. One that it
// could not load stands in the repository's index with the reason, and the others are served; the
// error joins the reasons.
//
// A model whose inputs all have known shapes is promised what it needs. The others are promised
// what they need for ones in the place of open dimensions, or a little where they do not take that;
// and later, as long as memory is left, what their requests need.
func (s *Server) LoadAll(ctx context.Context, sources []Source) error {
	var open []opened
	var errs []error
	for _, src := range sources {
		m, err := src.Open()
		if err != nil {
			errs = append(errs, s.failed(src, fmt.Errorf("model %s: %w", src.Name, err)))
			continue
		}
		open = append(open, opened{src, m, ones(m)})
	}
	// those that take what they need come first, so that what is left is known
	sorting.By(open, func(a, b opened) int {
		return cmp.Compare(min(len(a.shapes), 1), min(len(b.shapes), 1))
	})
	for _, o := range open {
		j := weir.Job{Name: o.Name, Shapes: o.shapes}
		if err := s.Load(ctx, o.model, o.Version, j); err != nil {
			errs = append(errs, s.failed(o.Source, err))
			continue
		}
		s.reopens(o.Source)
	}
	s.loaded.Store(len(errs) == 0)
	return errors.Join(errs...)
}

// reopens remembers how a version that is served is opened once more.
func (s *Server) reopens(src Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.models[src.Name].again = src.Open
}

// opened is a source that was opened.
type opened struct {
	Source
	model  *weir.Model
	shapes map[string][]int // of inputs with open dimensions
}

// ones returns a shape for each input that has open dimensions, with 1 in their places.
func ones(m *weir.Model) map[string][]int {
	shapes := map[string][]int{}
	for _, v := range m.Inputs() {
		open := v.Type.Shape == nil
		shape := []int{}
		for _, d := range v.Type.Shape {
			open = open || d.Size < 0
			shape = append(shape, max(d.Size, 1))
		}
		if open {
			shapes[v.Name] = shape
		}
	}
	return shapes
}

// failed remembers why a model is not served.
func (s *Server) failed(src Source, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = append(s.broken, oip.IndexEntry{Name: src.Name, Version: fmt.Sprint(src.Version),
		State: "UNAVAILABLE", Reason: text(err)})
	return err
}
