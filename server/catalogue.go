package server

import (
	"context"
	"fmt"
	"io/fs"
)

// Catalogue is where a server's models come from. Its methods may be called by any number of
// goroutines.
type Catalogue interface {
	// Models returns what there is, by name.
	Models(context.Context) ([]Offer, error)
	// Model returns one of them as it is now, which ends with the context where it must be brought
	// first. The error is of kind fs.ErrNotExist where there is no such.
	Model(ctx context.Context, name string) (Offer, error)
}

// Offer is a model of a [Catalogue].
type Offer struct {
	Name    string
	Sources []Source // the versions that are to be served, ascending

	back bool // the model is rolled back to them, whatever the catalogue has
}

// given is the catalogue of a server that has no other.
type given []Offer

// offers are sources as a catalogue.
func offers(sources []Source) given {
	var list given
	at := map[string]int{}
	for _, src := range sources {
		i, known := at[src.Name]
		if !known {
			i = len(list)
			at[src.Name] = i
			list = append(list, Offer{Name: src.Name})
		}
		list[i].Sources = append(list[i].Sources, src)
	}
	return list
}

func (g given) Models(context.Context) ([]Offer, error) { return g, nil }

func (g given) Model(_ context.Context, name string) (Offer, error) {
	for _, o := range g {
		if o.Name == name {
			return o, nil
		}
	}
	return Offer{}, fmt.Errorf("model %.200q: %w", name, fs.ErrNotExist)
}
