package cache

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
)

// record is what is noted of a model file, so that it need not be read.
type record struct {
	Files    []fileID // the model, then its external data
	Content  key
	Warnings []string
	Metadata *onnx.Metadata // nil in one of an older weir, which is made anew
	// graphs without nodes, in text, whose inputs are those of the model, and its outputs
	Inputs  string
	Outputs string
}

const (
	recordMagic = "weirmodl"

	// maxRecord bounds a record that is read: names and types of inputs and outputs, and what a
	// model says of itself, are short.
	maxRecord = 16 << 20
)

// signatureText writes the inputs and outputs of a graph.
func signatureText(g *graph.Graph) (inputs, outputs string, err error) {
	text := func(vs []*graph.Value) (string, error) {
		s := &graph.Graph{Name: g.Name}
		for _, v := range vs {
			s.Inputs = append(s.Inputs, &graph.Value{Name: v.Name, Type: v.Type})
		}
		var b strings.Builder
		err := graph.Print(&b, s)
		return b.String(), err
	}
	inputs, err = text(g.Inputs)
	if err != nil {
		return "", "", err
	}
	outputs, err = text(g.Outputs)
	return inputs, outputs, err
}

// signature is the graph of a record's inputs and outputs.
func (r *record) signature() (*graph.Graph, error) {
	g, err := graph.Parse(r.Inputs)
	if err != nil {
		return nil, err
	}
	outputs, err := graph.Parse(r.Outputs)
	if err != nil {
		return nil, err
	}
	g.Outputs = outputs.Inputs
	return g, nil
}

// decodeRecord reads the body of a record's file.
func decodeRecord(body []byte) (*record, *graph.Graph, error) {
	r := &record{}
	if err := json.Unmarshal(body, r); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if len(r.Files) == 0 {
		return nil, nil, fmt.Errorf("%w: a record of no file", errDamaged)
	}
	g, err := r.signature()
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return r, g, nil
}

// recall returns the record of a model that is as it was, nil when there is none.
func (c *Cache) recall(path string, id fileID) (*record, *graph.Graph) {
	name := c.recordFile(path)
	var r *record
	var g *graph.Graph
	body, err := c.readSealed(name, recordMagic, maxRecord)
	if err == nil {
		r, g, err = decodeRecord(body)
	}
	if err != nil {
		c.refuse(name, err)
		return nil, nil
	}
	same := r.Files[0] == id
	for _, want := range r.Files[1:] {
		have, err := identityAt(filepath.Join(filepath.Dir(path), want.Name), want.Name)
		same = same && err == nil && have == want
	}
	if !same || r.Metadata == nil {
		c.log.Debug("plan cache: model has changed", "model", path)
		return nil, nil
	}
	c.touch(name)
	return r, g
}
