package recipe

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weirgpu/weir/internal/yamlfile"
	"github.com/weirgpu/weir/train/data"
)

// Source says where an input of a model, or labels, come from: one of File, Images, Text and Noise
// is given.
type Source struct {
	File string // of numbers

	// Images is a folder of PNG and JPEG files with a folder for each class, which is the label.
	Images    string
	Cover     bool
	Mean, Std []float64

	// Text is a file of a sample a line, of which Column, from 1 on, becomes tokens by Vocabulary;
	// of labels without one the column is their numbers, or one of the lines of Names.
	Text               string
	Column             int
	Vocabulary, Merges string
	Cased, Keep        bool
	Around             data.Around
	Names              string
	// Mask and Types are inputs that are given 1 for tokens that are there and 0 else, and 0.
	Mask, Types string

	Noise data.NoiseKind
}

// Given reports whether there is one.
func (s *Source) Given() bool {
	return s.File != "" || s.Images != "" || s.Text != "" || s.Noise != ""
}

// under makes the files of a source relative to a folder.
func (s *Source) under(dir string) {
	for _, p := range []*string{&s.File, &s.Images, &s.Text, &s.Vocabulary, &s.Merges, &s.Names} {
		*p = under(dir, *p)
	}
}

// fileSource is a file by its name, or keys that say what it holds.
type fileSource struct{ Source }

// sourceKinds are the keys of each kind of source, which the first key tells.
var sourceKinds = map[string]string{
	"images": "images, fit, mean, std",
	"text":   "text, column, vocabulary, merges, cased, around, unknown, names, mask, types",
	"noise":  "noise",
}

type fileSourceOf struct {
	Images     string
	Fit        string
	Mean, Std  []float64
	Text       string
	Column     whole
	Vocabulary string
	Merges     string
	Cased      bool
	Around     string
	Unknown    string
	Names      string
	Mask       string
	Types      string
	Noise      string
}

// kindOf is the kind of source that a mapping is of, "" where it is none.
func kindOf(n *yaml.Node) string {
	for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
		if key := n.Content[i].Value; sourceKinds[key] != "" &&
			n.Content[i+1].Kind == yaml.ScalarNode {
			return key
		}
	}
	return ""
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (s *fileSource) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		s.File = n.Value
		return nil
	}
	kind := kindOf(n)
	if kind == "" {
		return yamlfile.Fault(n.Line, "data: want a file of numbers, or keys with images, text or "+
			"noise")
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key := n.Content[i]; !listed(sourceKinds[kind], key.Value) {
			return yamlfile.Fault(key.Line, "data: %s: unknown key %q: want %s", kind, key.Value,
				sourceKinds[kind])
		}
	}
	var of fileSourceOf
	if err := n.Decode(&of); err != nil {
		return err
	}
	s.Source = Source{Images: of.Images, Cover: of.Fit == "cover", Mean: of.Mean, Std: of.Std,
		Text: of.Text, Column: int(of.Column.Value), Vocabulary: of.Vocabulary, Merges: of.Merges,
		Cased: of.Cased, Keep: of.Unknown == "keep", Around: data.Around(of.Around),
		Names: of.Names, Mask: of.Mask, Types: of.Types, Noise: data.NoiseKind(of.Noise)}
	for _, c := range []struct{ key, is, may string }{{"fit", of.Fit, "stretch, cover"},
		{"around", of.Around, "both, begin, end, none"}, {"unknown", of.Unknown, "refuse, keep"},
		{"noise", of.Noise, "normal, uniform"}} {
		if c.is != "" && !listed(c.may, c.is) {
			return yamlfile.Fault(n.Line, "data: %s: %s %q: want one of %s", kind, c.key, c.is,
				c.may)
		}
	}
	if kind == "text" && s.Column == 0 {
		s.Column = 1
	}
	return nil
}

// check refuses a source that means nothing. Labels are those of a text where they may be numbers.
func (s *Source) check(what string, labels bool) error {
	fault := func(format string, args ...any) error {
		return fmt.Errorf("data: %s: %s", what, fmt.Sprintf(format, args...))
	}
	switch {
	case !s.Given():
		return fault("want a file")
	case labels && s.Images != "":
		return fault("images are an input, of which the folders are the labels: leave labels out")
	case s.Text != "" && s.Column < 1:
		return fault("column %d: want at least 1", s.Column)
	case s.Text != "" && s.Vocabulary == "" && !labels:
		return fault("text: want a vocabulary, a file of tokens")
	case s.Vocabulary != "" && s.Names != "":
		return fault("text: want a vocabulary or names")
	case s.Names != "" && !labels:
		return fault("text: names are those of labels")
	case s.Vocabulary == "" && (s.Merges != "" || s.Cased || s.Keep || s.Around != "" ||
		s.Mask != "" || s.Types != ""):
		return fault("text: merges, cased, unknown, around, mask and types want a vocabulary")
	case labels && (s.Mask != "" || s.Types != ""):
		return fault("text: mask and types are those of an input")
	case slices.Contains(s.Std, 0):
		return fault("images: std: samples are divided by it, so that it cannot be 0")
	}
	for _, v := range slices.Concat(s.Mean, s.Std) {
		if v != v || v-v != 0 {
			return fault("images: mean and std: %g: want numbers", v)
		}
	}
	return nil
}

// fileLabels are those of one loss, or of several by their names.
type fileLabels struct {
	one  Source
	many map[string]Source
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (l *fileLabels) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode || kindOf(n) != "" {
		var s fileSource
		err := n.Decode(&s)
		l.one = s.Source
		return err
	}
	var all map[string]fileSource
	err := n.Decode(&all)
	l.many = sources(all)
	return err
}

func sources(of map[string]fileSource) map[string]Source {
	if of == nil {
		return nil
	}
	out := map[string]Source{}
	for name, s := range of {
		out[name] = s.Source
	}
	return out
}

// pictures reports whether one of sources is of images.
func pictures(of map[string]Source) bool {
	for _, s := range of {
		if s.Images != "" {
			return true
		}
	}
	return false
}

// checkSources refuses sources that mean nothing, together with others.
func (d *Data) checkSources() error {
	names := func(of map[string]Source) string {
		var list []string
		for name := range of {
			list = append(list, name)
		}
		slices.Sort(list)
		return strings.Join(list, ", ")
	}
	for _, part := range []struct {
		at     string
		of     map[string]Source
		labels bool
	}{{"inputs: ", d.Inputs, false}, {"eval: inputs: ", d.Eval.Inputs, false},
		{"labels: ", d.Targets, true}, {"eval: labels: ", d.Eval.Targets, true}} {
		for _, name := range strings.Split(names(part.of), ", ") {
			s, ok := part.of[name]
			if !ok {
				continue
			}
			if err := s.check(part.at+name, part.labels); err != nil {
				return err
			}
		}
	}
	for at, s := range map[string]Source{"labels": d.Labels, "eval: labels": d.Eval.Labels} {
		if s.Given() {
			if err := s.check(at, true); err != nil {
				return err
			}
		}
	}
	images := pictures(d.Inputs)
	for _, text := range d.Augment {
		if c, err := ParseChange(text); err == nil && c.Kind == "resize" && !images {
			return fmt.Errorf("data: augment: %s: want an input of images", text)
		}
	}
	if images && d.Divide != 1 {
		return fmt.Errorf("data: divide: images are numbers from 0 to 1: use their mean and std")
	}
	return nil
}
