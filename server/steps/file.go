package steps

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weirgpu/weir/internal/yamlfile"
)

// Name is what a model's file of steps is called.
const Name = "steps.yaml"

// ErrSteps is the kind of error about what a file of steps says.
var ErrSteps = errors.New("steps.yaml")

// File is what a file says.
type File struct {
	Pre  []Chain
	Post []Chain
}

// Chain is steps one after another. In front of a model, From is an input that clients give and To
// the model's input; behind it, From is an output of the model or of a chain before, and To what
// clients get. A To that is empty or begins with an underscore is no output.
type Chain struct {
	From  string
	To    string
	Steps []Step
}

// Step is one step: one of its fields is set.
type Step struct {
	Decode    *Decode
	Resize    *Resize
	Crop      *Size
	Normalise *Normalise
	Layout    string
	Reshape   []int64
	Tokenise  *Tokenise

	Slice     *Slice
	Transpose []int64
	Softmax   *Softmax
	Top       *Top
	Labels    *Labels
	Threshold *float64
	Suppress  *Suppress
}

// Decode reads files of pictures.
type Decode struct {
	Colour string         // rgb, bgr or grey; "" stands for rgb
	Pixels yamlfile.Whole // the most that a picture may have; 0 stands for DefaultPixels
}

// DefaultPixels is how many pixels a picture may have where a file says nothing of it.
const DefaultPixels = 1 << 24

// Size is a size in pixels.
type Size struct {
	Width, Height yamlfile.Whole
}

// Resize gives pictures another size: Width and Height, or Shorter for the shorter side, where the
// other one follows.
type Resize struct {
	Width, Height, Shorter yamlfile.Whole
	Mode                   string // nearest, linear or cubic; "" stands for linear
}

// Normalise makes (x/Scale - Mean) / Std of each channel's values x.
type Normalise struct {
	Scale     float64 // 0 stands for 1
	Mean, Std []float64
}

// Tokenise makes numbers of texts: To has the tokens, and Mask and Types name what of the model is
// given 1 for those that are there, and 0.
type Tokenise struct {
	Vocabulary  string         // a file: tokens by lines for WordPiece, JSON for BPE
	Merges      string         // the file of merges, for BPE; "": it is WordPiece
	Length      yamlfile.Whole // of each row: what is longer is cut
	Cased       bool           // letters stay as they are; WordPiece
	Pad         string         // the token that fills rows up; "" stands for [PAD]
	Mask, Types string
}

// Slice is a part along an axis.
type Slice struct {
	Axis, From yamlfile.Whole
	To         *yamlfile.Whole
}

// Softmax makes probabilities along an axis, the last where none is given.
type Softmax struct {
	Axis *yamlfile.Whole
}

// Top keeps the Count largest values of each row; Index names the output of their places.
type Top struct {
	Count yamlfile.Whole
	Index string
}

// Labels names the labels of the values that top has kept, or of the largest: lines of a file.
type Labels struct {
	File string
	To   string
}

// Suppress keeps of boxes that overlap the best (non-maximum suppression). The chain's value is
// scores [rows, classes, boxes], and Boxes names boxes [rows, boxes, 4]: corners, or with Centre
// the centre and the size. The value becomes the scores of those that are kept; Kept, Classes and
// Rows name outputs with their boxes, classes and rows.
type Suppress struct {
	Boxes               string
	Overlap, Score      float64
	Count               yamlfile.Whole // of a class and row; 0 stands for all
	Centre              bool
	Kept, Classes, Rows string
}

var words = yamlfile.Words{
	Empty: "want pre, post",
	Holds: "the steps of one model",
	Keys: map[string]string{
		"steps.File":  "pre, post",
		"steps.Chain": "from, to, steps",
		"steps.Step": "decode, resize, crop, normalise, layout, reshape, tokenise, slice, " +
			"transpose, softmax, top, labels, threshold, suppress",
		"steps.Decode":    "colour, pixels",
		"steps.Size":      "width, height",
		"steps.Resize":    "width, height, shorter, mode",
		"steps.Normalise": "scale, mean, std",
		"steps.Tokenise":  "vocabulary, merges, length, cased, pad, mask, types",
		"steps.Slice":     "axis, from, to",
		"steps.Softmax":   "axis",
		"steps.Top":       "count, index",
		"steps.Labels":    "file, to",
		"steps.Suppress":  "boxes, overlap, score, count, centre, kept, classes, rows",
	},
	Forms: map[string]string{
		"steps.": "keys with values", "[]steps.Chain": "a list of {from, to, steps}",
		"[]steps.Step": "a list of steps", "[]float64": "a list of numbers",
		"[]int64": "a list of whole numbers", "yamlfile.Whole": "a whole number",
	},
}

// Parse reads a file. The error is of kind ErrSteps, with the line where there is one.
func Parse(text []byte) (*File, error) {
	f := &File{}
	err := words.Decode(text, f)
	if err == nil {
		err = f.check()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSteps, err)
	}
	return f, nil
}

// check holds what can be said of the file without its model.
func (f *File) check() error {
	if len(f.Pre)+len(f.Post) == 0 {
		return errors.New("want pre, post")
	}
	for _, side := range []struct {
		name   string
		chains []Chain
		where  uint
	}{{"pre", f.Pre, before}, {"post", f.Post, behind}} {
		for i, c := range side.chains {
			if err := c.check(side.where); err != nil {
				return fmt.Errorf("%s, from %q (%d.): %w", side.name, c.From, i+1, err)
			}
		}
	}
	return nil
}

func (c *Chain) check(where uint) error {
	if c.From == "" || c.To == "" && where == before || len(c.Steps) == 0 {
		return errors.New("give from, to and steps")
	}
	for i := range c.Steps {
		set := c.Steps[i].set()
		if len(set) != 1 {
			return fmt.Errorf("step %d has %d keys: give one", i+1, len(set))
		}
		if kind := kinds[set[0]]; kind&where == 0 {
			return fmt.Errorf("step %d, %s: it belongs to the other side of the model", i+1, set[0])
		} else if first := i == 0; first != (kind&opening != 0) && where == before &&
			(first || kind&opening != 0) {
			return fmt.Errorf("step %d, %s: the first step in front of a model is decode or "+
				"tokenise, and no other", i+1, set[0])
		}
	}
	return nil
}

// Where steps may be.
const (
	before  = 1 << iota // in front of a model
	behind              // behind it
	opening             // first, in front
)

var kinds = map[string]uint{"decode": before | opening, "tokenise": before | opening,
	"resize": before, "crop": before, "normalise": before, "layout": before,
	"reshape": before | behind, "transpose": before | behind, "slice": behind, "softmax": behind,
	"top": behind, "labels": behind, "threshold": behind, "suppress": behind}

// set are the names of the fields that are set.
func (s *Step) set() (names []string) {
	for _, f := range []struct {
		is   bool
		name string
	}{{s.Decode != nil, "decode"}, {s.Resize != nil, "resize"}, {s.Crop != nil, "crop"},
		{s.Normalise != nil, "normalise"}, {s.Layout != "", "layout"},
		{s.Reshape != nil, "reshape"}, {s.Tokenise != nil, "tokenise"}, {s.Slice != nil, "slice"},
		{s.Transpose != nil, "transpose"}, {s.Softmax != nil, "softmax"}, {s.Top != nil, "top"},
		{s.Labels != nil, "labels"}, {s.Threshold != nil, "threshold"},
		{s.Suppress != nil, "suppress"}} {
		if f.is {
			names = append(names, f.name)
		}
	}
	return names
}

// internal reports whether a value of a chain is no output.
func internal(name string) bool { return name == "" || strings.HasPrefix(name, "_") }
