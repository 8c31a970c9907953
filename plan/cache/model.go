package cache

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/sorting"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
)

// ErrChanged is the kind of error about a model file that was changed in place while it was open.
var ErrChanged = onnx.ErrChanged

// Model is a model file whose plans come from a cache where they can. The file is read when a plan
// has to be made.
type Model struct {
	// Graph has the model's inputs and outputs. Its nodes may be missing; Source has them.
	Graph *graph.Graph
	// Warnings and Metadata are those of onnx.Model.
	Warnings []string
	Metadata onnx.Metadata

	cache  *Cache // nil: plans are not kept
	path   string // absolute
	opened time.Time
	files  []fileID
	copied bool // its files are read in place of mapped

	of  []*Model // that it was made of; nil: it was read from a file
	how string   // it was made of them

	mu       sync.Mutex // guards what follows
	file     *os.File   // nil once the source is read
	source   *onnx.Model
	hashed   bool // content is known
	noted    bool // the record says so
	content  key
	mappings []*mapping
	closed   bool
}

// Model opens a model file. Errors are those of onnx.Open. The caller owns the model and must Close
// it.
func (c *Cache) Model(path string) (*Model, error) { return c.Read(path, onnx.Options{}) }

// Read is [Cache.Model] with options of reading, of which Copy and Operators count. Plans of a
// model with operators of the caller's are not kept: what these compute is not known by the model.
func (c *Cache) Read(path string, o onnx.Options) (*Model, error) {
	if c == nil || len(o.Operators) > 0 {
		return unkept(path, o)
	}
	opened := c.now()
	full, err := filepath.Abs(path)
	if err != nil {
		return unkept(path, o)
	}
	f, id, err := identify(path)
	if err != nil { // onnx.Open says what is wrong, or reads what is no regular file
		return unkept(path, o)
	}
	m := &Model{cache: c, path: full, opened: opened, file: f, copied: o.Copy}
	if r, g := c.recall(full, id); r != nil {
		m.Graph, m.Warnings, m.Metadata = g, r.Warnings, *r.Metadata
		m.files, m.content, m.hashed, m.noted = r.Files, r.Content, true, true
		return m, nil
	}
	m.files = []fileID{id}
	src, err := m.read()
	if err != nil {
		return nil, err
	}
	m.Graph, m.Warnings, m.Metadata = src.Graph, src.Warnings, src.Metadata
	return m, nil
}

// unkept reads a model whose plans are not kept.
func unkept(path string, o onnx.Options) (*Model, error) {
	src, err := onnx.Open(path, onnx.Options{Copy: o.Copy, Operators: o.Operators})
	if err != nil {
		return nil, err
	}
	return Wrap(src), nil
}

// Wrap makes a Model, whose plans are not kept, of one that is read already, and takes it over.
func Wrap(src *onnx.Model) *Model {
	return &Model{Graph: src.Graph, Warnings: src.Warnings, Metadata: src.Metadata, source: src}
}

// Source returns the model itself, which is read when it is first asked for. It fails as onnx.Open,
// with [ErrChanged] when the file was changed in place since it was opened, and with os.ErrClosed.
// A file that was replaced by renaming is read as it was.
func (m *Model) Source() (*onnx.Model, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return nil, fmt.Errorf("model %q: %w", m.path, os.ErrClosed)
	case m.source == nil:
		return m.read()
	}
	return m.source, nil
}

// hold keeps a mapping until the model is closed, which it must not be yet; m.mu is held.
func (m *Model) hold(file *mapping) error {
	if m.closed {
		return errors.Join(fmt.Errorf("model %q: %w", m.path, os.ErrClosed), file.close())
	}
	m.mappings = append(m.mappings, file)
	return nil
}

// read reads the model file; m.mu is held, or nobody else has m.
func (m *Model) read() (*onnx.Model, error) {
	var external []fileID
	noteFile := func(name string, f *os.File) error {
		id, err := identityOf(f)
		id.Name = name
		external = append(external, id)
		return err
	}
	src, err := onnx.OpenFile(m.file, onnx.Options{External: noteFile, Copy: m.copied})
	if err != nil {
		return nil, errors.Join(err, m.closeFile())
	}
	id, err := identityOf(m.file)
	// The change time tells of a new name as well, and of none: replacing a file renames or removes
	// it.
	if was := m.files[0]; err == nil && (id.Size != was.Size || id.Modified != was.Modified) {
		err = ErrChanged
	}
	sorting.By(external, func(a, b fileID) int { return strings.Compare(a.Name, b.Name) })
	if !m.hashed {
		m.files = append(m.files, external...)
	} else if err == nil && !slices.Equal(m.files[1:], external) {
		err = ErrChanged
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w: open it again", m.file.Name(), err),
			src.Close(), m.closeFile())
	}
	m.source = src
	return src, m.closeFile()
}

func (m *Model) closeFile() error {
	if m.file == nil {
		return nil
	}
	f := m.file
	m.file = nil
	return f.Close()
}

// Unchanged is onnx.Model.Unchanged for a model that has been read; of others nothing was used.
func (m *Model) Unchanged() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.source == nil {
		return nil
	}
	return m.source.Unchanged()
}

// Maps reports whether steps of a plan of the model, once its weights are packed, read constants
// in a mapped file of the model, so that [Model.Unchanged] says whether what they read was right.
func (m *Model) Maps(p *plan.Plan) bool {
	m.mu.Lock()
	src := m.source
	m.mu.Unlock()
	if src == nil {
		return false
	}
	absorbed, maps := p.Absorbed(), false
	p.Graph.Walk(func(g *graph.Graph) {
		for _, v := range g.Constants() {
			maps = maps || !absorbed[v.Const()] && src.Maps(v.Const())
		}
	})
	return maps
}

// Evict is onnx.Model.Evict for a model that has been read, and does nothing for others.
func (m *Model) Evict(t *tensor.Tensor) {
	m.mu.Lock()
	src := m.source
	m.mu.Unlock()
	if src != nil {
		src.Evict(t)
	}
}

// Close unmaps the model and every plan that was found in the cache: no plan of the model, nor what
// was loaded of it, may be used afterwards. A second Close does nothing.
func (m *Model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	err := m.closeFile()
	if m.source != nil {
		err = errors.Join(err, m.source.Close())
	}
	for _, f := range m.mappings {
		err = errors.Join(err, f.close())
	}
	m.mappings = nil
	return err
}

// identity returns the hash of the model's content. It reads the files when the hash is not known,
// and checks that they are still those that were parsed. It fails when their times cannot tell for
// sure that their content is still the same.
func (m *Model) identity() (key, error) {
	m.mu.Lock()
	content, hashed := m.content, m.hashed
	m.mu.Unlock()
	if hashed {
		return content, nil
	}
	if m.of != nil {
		return m.joined()
	}
	if err := m.settled(); err != nil {
		return key{}, err
	}
	content, err := m.hash() // without the lock, which others want meanwhile
	if err != nil {
		return key{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.unchanged(); err != nil {
		return key{}, err
	}
	m.content, m.hashed = content, true
	return content, nil
}

// hash hashes the content of the model: its file, then those of its external data. What it reads is
// what was opened, wherever a path has led in between.
func (m *Model) hash() (key, error) {
	h := sha256.New()
	for i := range m.files {
		want := &m.files[i]
		sum, err := hashFile(m.pathOf(want), want)
		if err != nil {
			return key{}, err
		}
		fmt.Fprintf(h, "%d %x\n", want.Size, sum)
	}
	return key(h.Sum(nil)), nil
}

// errSettling is the kind of error about a model whose files were changed so shortly before they
// were opened that their times cannot tell of every change.
var errSettling = errors.New("the model's file has only just been written")

// settled fails when what is in the model's files cannot be told for sure, because they were
// changed shortly before they were opened.
func (m *Model) settled() error {
	if m.of != nil {
		return m.allSettled()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.files {
		if !m.hashed && !m.files[i].settledAt(m.opened) {
			return errSettling
		}
	}
	return nil
}

// pathOf is where a file of the model is.
func (m *Model) pathOf(f *fileID) string {
	if f.Name == "" {
		return m.path
	}
	return filepath.Join(filepath.Dir(m.path), f.Name)
}

// unchanged reports whether the files are still those that were opened; m.mu is held.
func (m *Model) unchanged() error {
	if m.of != nil {
		return m.allUnchanged()
	}
	for i := range m.files {
		want := m.files[i]
		if have, err := identityAt(m.pathOf(&want), want.Name); err != nil || have != want {
			return errors.Join(ErrChanged, err)
		}
	}
	return nil
}

// note writes the record of the model, unless it is there; m.mu is held.
func (m *Model) note() error {
	if m.noted {
		return nil
	}
	m.noted = true
	r := &record{Files: m.files, Content: m.content, Warnings: m.Warnings, Metadata: &m.Metadata}
	var err error
	if r.Inputs, r.Outputs, err = signatureText(m.Graph); err != nil {
		return err
	}
	if _, err := r.signature(); err != nil {
		return err
	}
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return m.cache.writeSealed(m.cache.recordFile(m.path), recordMagic, maxRecord, body)
}
