package onnx

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/internal/op"
)

// ErrOpset is the kind of error about an operator set that a model uses without importing it, or
// that one model cannot hold in two versions.
var ErrOpset = errors.New("bad operator set")

// ErrChanged is the kind of error about a model file, or one of its external data, that was written
// or cut short in place while it was in use: what has been read of it may be of two contents. It is
// fault.ErrFile.
var ErrChanged = fault.ErrFile

// Options says how far reading goes. The zero Options checks everything.
type Options struct {
	// SkipCheck leaves out graph.Check and type inference, so that a model with operators that weir
	// does not have can be looked at. Such a graph cannot be evaluated.
	SkipCheck bool
	// SkipInfer leaves out type inference: values that nodes compute have the types that the model
	// declares, if any.
	SkipInfer bool
	// External, if not nil, is called once for each file of external data, after it was opened and
	// before any of its bytes is used. name is its path in the model's folder. What f.Stat says
	// describes the very bytes that are read, even if the path leads to another file later. f is
	// closed after the call. An error of External makes reading fail.
	External func(name string, f *os.File) error
	// Copy has [Open] read the files into memory in place of mapping them: nothing that happens to
	// them later matters, Evict does nothing, and no other process shares the memory.
	Copy bool
	// Operators are the rows of operators that internal/op has none for. A node of one of them
	// keeps its row (graph.Node.Row): of several for one operator that of the newest version which
	// is no newer than the one that the model imports.
	Operators []*op.Op
}

// Model is a model file in use.
type Model struct {
	// Graph is the model. Its constants are views of the mapped file: they must not be written, and
	// not be used after Close.
	Graph *graph.Graph
	// Path is the file, "" for a model decoded from memory.
	Path string
	// Metadata is what the model says of itself.
	Metadata Metadata
	// Warnings lists what weir may understand otherwise than the author of the model meant it:
	// operator sets that are newer than those weir knows.
	Warnings []string

	file  *mapping
	files *externalFiles
	of    []*Model // whose constants are in Graph, too
}

// OpenFS reads a model of a file system, such as one that is part of the program (embed.FS), into
// memory. External data is looked for in the model's folder and read as well, except what is
// reached through a link. [Options] External and Copy do nothing. Errors are those of [Open].
func OpenFS(fsys fs.FS, name string, o Options) (*Model, error) {
	data, err := readRegular(fsys, name)
	if err != nil {
		return nil, err
	}
	m, err := decode(data, &externalFiles{dir: path.Dir(name), fsys: fsys}, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	m.Path = name
	return m, nil
}

// Open maps a model file and reads its graph. External data is looked for in the file's folder.
// Errors name the file and are of kind [ErrFormat], [ErrExternalData], [ErrOpset],
// op.ErrUnsupported or graph.ErrInvalid, or come from the file system.
func Open(path string, o Options) (*Model, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return OpenFile(f, o)
}

// OpenFile is Open for a file that is open already, under the name that it was opened by. The
// caller closes f, at any time.
func OpenFile(f *os.File, o Options) (*Model, error) {
	path := f.Name()
	file, err := mapFile(f, o.Copy)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	m, err := decode(file.data, filesIn(filepath.Dir(path), o), o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.close())
	}
	m.Path, m.file = path, file
	if err := m.Unchanged(); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// Unchanged fails with [ErrChanged] when one of the model's files has been written in place since
// it was opened, as its size and modification time tell. A caller that has folded, packed or copied
// constants calls it before using the result. It does not notice writes through a shared mapping
// whose modification time the system has not recorded yet, nor files whose modification time was
// set back. It says nothing about writes after the call, which still change constants that are read
// from the mapping: who reads them calls it afterwards. It allocates nothing where all is well.
func (m *Model) Unchanged() error {
	if m.file != nil {
		if err := m.file.unchanged(); err != nil {
			return err
		}
	}
	for _, f := range m.files.maps {
		if err := f.unchanged(); err != nil {
			return err
		}
	}
	for _, o := range m.of {
		if err := o.Unchanged(); err != nil {
			return err
		}
	}
	return nil
}

// Decode reads a model from memory. The graph's constants are views of data, which must not change
// while they are in use. External data is looked for in dir; "" refuses it. The errors are those of
// [Open] without the file's name.
func Decode(data []byte, dir string, o Options) (*Model, error) {
	return decode(data, filesIn(dir, o), o)
}

// filesIn are the files of external data in a folder.
func filesIn(dir string, o Options) *externalFiles {
	return &externalFiles{dir: dir, opened: o.External, copied: o.Copy}
}

// decode reads a model whose external data is in files, which it closes when it fails.
func decode(data []byte, files *externalFiles, o Options) (*Model, error) {
	m, err := fault.Value(func() (*Model, error) { return read(data, files, o) })
	if err != nil {
		return nil, errors.Join(err, files.close())
	}
	return m, nil
}

// read reads a model whose external data is in files.
func read(data []byte, files *externalFiles, o Options) (*Model, error) {
	msg, err := (&decoder{}).model(data)
	if err != nil {
		return nil, err
	}
	m := &Model{Metadata: metadata(msg), Warnings: opsetWarnings(msg.opsets), files: files}
	if m.Graph, err = build(msg, m.files, o); err == nil && !o.SkipCheck {
		if err = m.Graph.Check(); err == nil && !o.SkipInfer {
			err = inferTypes(m.Graph)
		}
	}
	return m, err
}

// inferTypes types what nodes compute. Sizes that the file declares may be wrong, so an error that
// disappears when they are ignored does not count.
func inferTypes(g *graph.Graph) error {
	err := g.InferTypes()
	if err == nil {
		return nil
	}
	if _, without := g.Specialize(nil); without == nil {
		return nil
	}
	return err
}

// Close unmaps the model's files. The graph's constants, and tensors that alias them, must not be
// used afterwards. A second Close does nothing.
func (m *Model) Close() error {
	err := m.files.close()
	if m.file != nil {
		err = errors.Join(err, m.file.close())
	}
	return err
}

// opsetVersion returns the version of a node's operator set.
func opsetVersion(n *nodeMessage, opsets map[string]int) (int, error) {
	v, ok := opsets[n.domain]
	switch {
	case !ok && n.domain == fusedDomain:
		return 1, nil
	case !ok:
		return 0, inNode(n, fmt.Errorf("%w: the model imports no operator set for domain %q",
			ErrOpset, n.domain))
	case v < 1:
		return 0, inNode(n, fmt.Errorf(
			"%w: the model imports version %d of domain %q, the first is 1", ErrOpset, v, n.domain))
	}
	return v, nil
}

// opsetWarnings tells of operator sets that are newer than those that weir knows. Such a model
// runs: newer sets mostly add operators, types and attributes, and a model that uses one of these
// which weir does not have fails with an error of its own.
func opsetWarnings(opsets map[string]int) []string {
	var out []string
	for _, domain := range slices.Sorted(maps.Keys(opsets)) {
		newest := op.NewestOpset(domain)
		if newest == 0 || opsets[domain] <= newest {
			continue
		}
		name := domain
		if name == "" {
			name = "ai.onnx"
		}
		out = append(out, fmt.Sprintf("the model imports version %d of operator set %s, weir "+
			"knows versions up to %d: each operator runs as its newest definition that weir has",
			opsets[domain], name, newest))
	}
	return out
}
