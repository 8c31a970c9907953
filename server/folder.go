package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/repo"
	"github.com/weirgpu/weir/server/sealed"
	declared "github.com/weirgpu/weir/server/steps"
)

// Source is a version of a model to be served. Open is called each time that it is loaded, and for
// each batch job with it; of one whose configuration makes it of other models it is not called.
type Source struct {
	Name    string
	Version int64 // from 1 on; 0: no version is known, and Open says why
	Open    func() (*weir.Model, error)
	// Config is the model's configuration; nil where it has none.
	Config *oip.Config
	// Labels are those of outputs, by name and in the order of their elements.
	Labels map[string][]string
	// Sample is a random value for an input of text, "" for any; nil stands for that.
	Sample func(input string, rng *rand.Rand) string
	// Read reads a file beside the model by its path, of so many bytes at most; nil where there are
	// none.
	Read func(path string, most int64) ([]byte, error)
	// Mark is equal for equal content: a version whose mark is as it was is not loaded anew. ""
	// is unlike all others.
	Mark string
	// Stale reports whether what Open reads has changed since; nil stands for never.
	Stale func() bool
	// learned is how requests were put together when it was served before; nil: it was not.
	learned *batching
}

// Folder is a folder of models as a [Catalogue]. Versions that are encrypted at rest are opened
// with Keys, which is nil where there are none, into memory: nothing of them is written anywhere.
type Folder struct {
	Path    string
	Keys    sealed.Keys
	Options []weir.Option // of all models
	// Bring, where it is not nil, makes the folder what the places are that its models come from,
	// before it is looked at: for one model, or for all with "". Nothing is pushed into such a
	// folder, which would not keep it.
	Bring func(ctx context.Context, model string) error
}

func (f *Folder) bring(ctx context.Context, model string) error {
	if f.Bring == nil {
		return nil
	}
	return f.Bring(ctx, model)
}

// Models implements [Catalogue].
func (f *Folder) Models(ctx context.Context) ([]Offer, error) {
	if err := f.bring(ctx, ""); err != nil {
		return nil, err
	}
	found, _, err := repo.Scan(f.Path)
	var list []Offer
	for i := range found {
		list = append(list, f.Offer(&found[i]))
	}
	return list, err
}

// Names returns those of the models that there are, without a look into each: a server's index
// lists them beside those that it has.
func (f *Folder) Names() ([]string, error) { return repo.Names(f.Path) }

// Model implements [Catalogue].
func (f *Folder) Model(ctx context.Context, name string) (Offer, error) {
	if err := f.bring(ctx, name); err != nil {
		return Offer{}, err
	}
	m, err := repo.Find(f.Path, name, nil)
	if err != nil {
		return Offer{}, err
	}
	return f.Offer(&m), nil
}

// versions are some of a model, as they are now.
func (f *Folder) versions(name string, list []once) (Offer, error) {
	var numbers []int64
	for _, v := range list {
		numbers = append(numbers, v.Version)
	}
	m, err := repo.Versions(f.Path, name, numbers)
	if err != nil {
		return Offer{}, err
	}
	return f.Offer(&m), nil
}

// Offer is what the folder has of a model.
func (f *Folder) Offer(m *repo.Model) Offer {
	o := Offer{Name: m.Name}
	if m.Err != nil {
		o.Sources = []Source{{Name: m.Name, Mark: m.Err.Error(), Open: func() (*weir.Model,
			error) {
			return nil, m.Err
		}}}
		return o
	}
	for _, v := range m.Versions {
		src := Source{Name: m.Name, Version: v.Number, Config: m.Config,
			Labels: m.Labels, Mark: v.Mark, Stale: v.Stale, Read: m.Read,
			Open: func() (*weir.Model, error) { return f.open(&v) }}
		if m.Steps != nil {
			src.stepped(m.Steps)
		}
		o.Sources = append(o.Sources, src)
	}
	return o
}

// stepped puts the steps of a file in front of the model and behind it.
func (src *Source) stepped(text []byte) {
	open, name, read := src.Open, src.Name, src.Read
	file, err := declared.Parse(text)
	if err == nil && isEnsemble(src) {
		err = fmt.Errorf("%w: an ensemble has none: give them to its models", declared.ErrSteps)
	}
	if err != nil {
		src.Config = nil // which may be an ensemble's, that is not opened
		src.Open = func() (*weir.Model, error) { return nil, err }
		return
	}
	src.Sample = file.Sample
	src.Open = func() (*weir.Model, error) {
		m, err := open()
		if err != nil {
			return nil, err
		}
		return file.Join(name, m, read)
	}
}

// options are those of all models.
func (f *Folder) options() []weir.Option {
	return append([]weir.Option{weir.WithMaxShapes(shapes)}, f.Options...)
}

func (f *Folder) open(v *repo.Version) (*weir.Model, error) {
	if !v.Sealed {
		return weir.Open(v.Path, f.options()...)
	}
	plain, err := sealed.Open(context.Background(), v.Path, f.Keys)
	if err != nil {
		return nil, err
	}
	return weir.Load(plain, f.options()...)
}

// missing reports whether an error is about a model that a catalogue does not have.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

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
