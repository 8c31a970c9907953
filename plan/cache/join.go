package cache

import (
	"errors"
	"slices"

	"github.com/weirgpu/weir/onnx"
)

// Joined makes a Model of one that was made of others (onnx.Joined), and takes it over, but not the
// others, which must stay open. how says in which way they were joined, and is unlike for whatever
// gives another graph. Its plans are kept where those of all of the others are.
func Joined(src *onnx.Model, how string, of ...*Model) *Model {
	m := Wrap(src)
	for _, p := range of {
		if p.cache == nil {
			return m
		}
	}
	if len(of) == 0 {
		return m
	}
	m.cache, m.of, m.how, m.path = of[0].cache, slices.Clone(of), how, src.Metadata.Graph
	m.noted = true // nobody opens it by its path
	for _, p := range of {
		m.files = append(m.files, p.files...)
	}
	return m
}

// joined is the identity of a model that was made of others.
func (m *Model) joined() (key, error) {
	lines := []string{"joined", m.how}
	for _, p := range m.of {
		k, err := p.identity()
		if err != nil {
			return key{}, err
		}
		lines = append(lines, k.String())
	}
	content := keyOf(lines...)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.content, m.hashed = content, true
	return content, nil
}

// allSettled is settled of those that the model was made of.
func (m *Model) allSettled() error {
	var errs []error
	for _, p := range m.of {
		errs = append(errs, p.settled())
	}
	return errors.Join(errs...)
}

// allUnchanged is unchanged of those that the model was made of.
func (m *Model) allUnchanged() error {
	var errs []error
	for _, p := range m.of {
		p.mu.Lock()
		errs = append(errs, p.unchanged())
		p.mu.Unlock()
	}
	return errors.Join(errs...)
}
