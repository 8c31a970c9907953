// Package config reads the file that configures a server: settings by keys, each of which stands
// for a flag of weir up, and what models are to have.
//
// Meet first: [Parse], which returns a [File]; [File.Changes], what differs in a later one.
//
// Concurrency: a File is not changed by this package once it is parsed.
//
// What it refuses: unknown keys, keys given twice, and values that are no single value, each with
// its line, all together; a model without a name or named twice. Whether a value of a setting is
// right its flag says.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weirgpu/weir/internal/sorting"
	"github.com/weirgpu/weir/internal/yamlfile"
	"github.com/weirgpu/weir/share"
)

// ErrConfig is the kind of error about what a file says.
var ErrConfig = errors.New("invalid configuration")

// File is what a file says.
type File struct {
	Settings []Setting // in the order of the file
	Models   []Model   // by name
}

// Setting is a value of the file.
type Setting struct {
	Key   string // "listen.http"
	Value string // of a list, the values with commas between them
	Line  int    // from 1 on
}

// Model is what a model is to have. The zero values stand for what it has without.
type Model struct {
	Name  string
	Share share.Share // its Memory is 0 where the model is to be promised what it needs
}

// Parse reads a file. Keys are all that may be set, with points between their parts. The error is
// of kind ErrConfig, or that of the reader.
func Parse(r io.Reader, keys []string) (*File, error) {
	text, err := yamlfile.Read(r)
	if err != nil && !errors.Is(err, yamlfile.ErrLong) {
		return nil, err
	}
	p := &parser{keys: keys, file: &File{}, seen: map[string]bool{}}
	if err == nil {
		err = words.Decode(text, p)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return p.file, nil
}

// modelKeys are those of a model.
const modelKeys = "name, share"

var words = yamlfile.Words{
	Empty: "want keys such as listen, repository or models",
	Holds: "one configuration",
	Keys: map[string]string{
		"config.fileModel": modelKeys,
		"config.fileShare": "memory, keep, compute, limit, class",
	},
	Forms: map[string]string{
		"config.parser":      "keys with values",
		"[]config.fileModel": "a list of models, each with a name",
		"config.fileModel":   "keys with values: " + modelKeys,
		"config.fileShare":   "{memory: 2GiB, compute: 0.3, limit: 0.5, class: latency}",
	},
}

// parser gathers a file.
type parser struct {
	keys  []string
	file  *File
	seen  map[string]bool
	names []string // of models
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (p *parser) UnmarshalYAML(n *yaml.Node) error {
	var faults yaml.TypeError
	if n.Kind != yaml.MappingNode {
		return yamlfile.Fault(n.Line, "want keys with values")
	}
	p.level("", n, &faults)
	if len(faults.Errors) > 0 {
		return &faults
	}
	return nil
}

// level reads the keys below one, "" for the file's own.
func (p *parser) level(above string, n *yaml.Node, faults *yaml.TypeError) {
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		path := strings.TrimPrefix(above+"."+key.Value, ".")
		var err error
		switch {
		case p.seen[path]:
			err = yamlfile.Fault(key.Line, "%s is given twice", path)
		case path == "models":
			err = p.models(value)
		case slices.Contains(p.keys, path):
			err = p.setting(path, value)
		case !p.begins(path):
			err = yamlfile.Fault(key.Line, "unknown key %q: want %s", path, p.below(above))
		case value.Kind != yaml.MappingNode:
			err = yamlfile.Fault(value.Line, "%s: want keys with values: %s", path, p.below(path))
		default:
			p.level(path, value, faults)
		}
		p.seen[path] = true
		var wrong *yaml.TypeError
		if errors.As(err, &wrong) {
			faults.Errors = append(faults.Errors, wrong.Errors...)
		}
	}
}

// begins reports whether some key lies below path.
func (p *parser) begins(path string) bool {
	return slices.ContainsFunc(p.keys, func(k string) bool {
		return strings.HasPrefix(k, path+".")
	})
}

// below lists the parts that may follow a key, "" for the first.
func (p *parser) below(above string) string {
	var parts []string
	if above == "" {
		parts = append(parts, "models")
	}
	for _, k := range p.keys {
		rest, ok := strings.CutPrefix("."+k, strings.TrimSuffix("."+above, ".")+".")
		if !ok {
			continue
		}
		part, _, _ := strings.Cut(rest, ".")
		if !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// setting reads the value of a key.
func (p *parser) setting(path string, n *yaml.Node) error {
	s := Setting{Key: path, Line: n.Line}
	values := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		values = n.Content
	}
	for i, v := range values {
		if v.Kind != yaml.ScalarNode || v.Tag == "!!null" {
			return yamlfile.Fault(v.Line, "%s: want a value", path)
		}
		if i > 0 {
			s.Value += ","
		}
		s.Value += v.Value
	}
	p.file.Settings = append(p.file.Settings, s)
	return nil
}

type fileModel struct {
	Name  string
	Share fileShare
}

type fileShare struct {
	Memory  yamlfile.Text[share.Bytes, *share.Bytes]
	Keep    yamlfile.Text[share.Bytes, *share.Bytes]
	Compute float64
	Limit   float64
	Class   yamlfile.Text[share.Class, *share.Class]
}

// known holds the keys of a node against those of a type; yaml.Node.Decode does not.
func known(n *yaml.Node, what, keys string) error {
	if n.Kind != yaml.MappingNode {
		return yamlfile.Fault(n.Line, "%s: want keys with values: %s", what, keys)
	}
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		if !slices.Contains(strings.Split(keys, ", "), key.Value) {
			return yamlfile.Fault(key.Line, "unknown key %q: want %s", key.Value, keys)
		}
		sub := words.Keys["config.file"+strings.ToUpper(key.Value[:1])+key.Value[1:]]
		if sub == "" {
			continue
		}
		if err := known(n.Content[i+1], key.Value, sub); err != nil {
			return err
		}
	}
	return nil
}

// models reads the list of models.
func (p *parser) models(n *yaml.Node) error {
	if n.Kind != yaml.SequenceNode {
		return yamlfile.Fault(n.Line, "models: want %s", words.Forms["[]config.fileModel"])
	}
	for _, item := range n.Content {
		if err := known(item, "a model", modelKeys); err != nil {
			return err
		}
		var f fileModel
		if err := item.Decode(&f); err != nil {
			return err
		}
		m := Model{Name: f.Name, Share: share.Share{Memory: f.Share.Memory.Value,
			Keep: f.Share.Keep.Value, Compute: f.Share.Compute, Limit: f.Share.Limit,
			Class: f.Share.Class.Value}}
		if err := m.check(p.names); err != nil {
			return yamlfile.Fault(item.Line, "%v", err)
		}
		p.names = append(p.names, m.Name)
		p.file.Models = append(p.file.Models, m)
	}
	sorting.By(p.file.Models, func(a, b Model) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

// check holds a model against itself, and its name against those before it.
func (m *Model) check(before []string) error {
	switch {
	case m.Name == "":
		return errors.New("a model without a name: give the name of its folder")
	case slices.Contains(before, m.Name):
		return fmt.Errorf("model %s is there twice", m.Name)
	}
	if err := m.Share.Validate(); err != nil {
		return fmt.Errorf("model %s: %w", m.Name, err)
	}
	return nil
}

// Model returns what a model is to have; the zero value where the file does not name it.
func (f *File) Model(name string) Model {
	i := slices.IndexFunc(f.Models, func(m Model) bool { return m.Name == name })
	if i < 0 {
		return Model{Name: name}
	}
	return f.Models[i]
}

// Changes returns the keys of settings that another file sets otherwise, in the order of both.
func (f *File) Changes(next *File) []string {
	value := func(f *File, key string) (string, bool) {
		i := slices.IndexFunc(f.Settings, func(s Setting) bool { return s.Key == key })
		if i < 0 {
			return "", false
		}
		return f.Settings[i].Value, true
	}
	var keys []string
	for _, s := range slices.Concat(f.Settings, next.Settings) {
		a, before := value(f, s.Key)
		b, after := value(next, s.Key)
		if (a != b || before != after) && !slices.Contains(keys, s.Key) {
			keys = append(keys, s.Key)
		}
	}
	return keys
}
