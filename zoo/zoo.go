package zoo

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
)

// ErrUnknown is the kind of error about an architecture that the zoo does not have.
var ErrUnknown = errors.New("unknown architecture")

// Arch describes an architecture of the zoo.
type Arch struct {
	// Name is what [New] takes, such as "resnet50".
	Name string
	// Doc says in one line what the network does and where it was published.
	Doc string
	// Parameters counts the trained parameters at full size, as published: running statistics of
	// batch normalisation and tables such as anchors are not counted, weights that are used twice
	// count once.
	Parameters int
	// Inputs are the inputs in order, with a usual shape.
	Inputs []Input

	options  field
	multiple int // of which Resolution or Hidden is one
	draft    func(b *builder, o Options)
}

// Input describes an input of an architecture at full size.
type Input struct {
	Name  string
	DType tensor.DType
	// Shape is a usual size for tests and measurements: one image, or one sequence of 128 tokens.
	Shape []int
	// Limit bounds the values of an integer input: 0 <= v < Limit; an attention mask without
	// padding is all ones. 0 stands for floats, usually within 0 to 1.
	Limit int
}

// image is the input of an image network of one picture of n x n pixels.
func image(name string, n int) []Input {
	return []Input{{Name: name, DType: tensor.Float32, Shape: []int{1, 3, n, n}}}
}

// token is an input with an integer a token.
func token(name string, limit int) Input {
	return Input{Name: name, DType: tensor.Int64, Shape: []int{1, 128}, Limit: limit}
}

// All returns the architectures, in the order in which lists show them. The caller owns the slice
// and what it holds.
func All() []Arch {
	return []Arch{resnet50(), mobilenetV2(), yolov8n(), bertBase(), miniLM(), gpt2()}
}

// Names returns the names of all architectures, in the order of [All].
func Names() []string {
	var names []string
	for _, a := range All() {
		names = append(names, a.Name)
	}
	return names
}

// New writes the architecture of that name. The graph satisfies graph.Check and has its types
// inferred; batch and sequence are symbols where exporters leave them open. It fails with
// [ErrUnknown], naming the architectures, and with [ErrOption].
func New(name string, o Options) (*graph.Graph, error) {
	d, err := draft(name, o)
	if err != nil {
		return nil, err
	}
	if err := d.fillAll(); err != nil {
		return nil, err
	}
	if err := d.g.Check(); err != nil {
		return nil, fmt.Errorf("zoo: %s: %w", name, err)
	}
	return d.g, nil
}

// Parameters counts the trained parameters of a graph that [New] wrote.
func Parameters(g *graph.Graph) int {
	n := 0
	for _, v := range g.Constants() {
		if strings.HasSuffix(v.Name, weightSuffix) || strings.HasSuffix(v.Name, biasSuffix) {
			n += v.Const().Len()
		}
	}
	return n
}

// draft writes the graph with types, but without the elements of its weights.
func draft(name string, o Options) (*export, error) {
	all := All()
	i := slices.IndexFunc(all, func(a Arch) bool { return a.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("zoo: %w %q: have %s", ErrUnknown, name, strings.Join(Names(), ", "))
	}
	a := all[i]
	if err := o.check(a); err != nil {
		return nil, err
	}
	b := newBuilder(name, o.Seed)
	a.draft(b, o)
	if err := b.g.InferTypes(); err != nil {
		return nil, fmt.Errorf("zoo: %s: %w", name, err)
	}
	return b.export, nil
}
