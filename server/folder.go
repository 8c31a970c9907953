package server

import (
	"context"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/repo"
	"github.com/weirgpu/weir/server/sealed"
)

// Source is a version of a model to be served. Open is called each time that it is loaded, and for
// each batch job with it.
type Source struct {
	Name    string
	Version int64 // from 1 on
	Open    func() (*weir.Model, error)
	// Mark is equal for equal content: a version whose mark is as it was is not loaded anew. ""
	// is unlike all others.
	Mark string
	// Stale reports whether what Open reads has changed since; nil stands for never.
	Stale func() bool
}

// Sources opens each version with the options. Those that are encrypted at rest are opened with
// keys, which is nil where there are none, into memory: nothing of them is written anywhere.
func Sources(found []repo.Version, keys sealed.Keys, o ...weir.Option) []Source {
	var list []Source
	for _, v := range found {
		list = append(list, Source{Name: v.Name, Version: v.Number, Open: func() (*weir.Model,
			error) {
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
