package cache

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirgpu/weir/graph"
)

// record is what is noted of a model file, so that it need not be read.
type record struct {
	Files    []fileID // the model, then its external data
	Content  key
	Warnings []string
	// graphs without nodes, in text, whose inputs are those of the model, and its outputs
	Inputs  string
	Outputs string
}

// maxRecord bounds a record that is read: names and types of inputs and outputs are short.
const maxRecord = 16 << 20

// recordMagic begins a record, before the CRC-32C of the rest.
const recordMagic = "weirmodl"

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

// encode writes a record as a file has it.
func (r *record) encode() ([]byte, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	out := binary.LittleEndian.AppendUint32([]byte(recordMagic), checksum(body))
	return append(out, body...), nil
}

// decodeRecord reads what encode writes.
func decodeRecord(data []byte) (*record, *graph.Graph, error) {
	rest, ok := bytes.CutPrefix(data, []byte(recordMagic))
	if !ok || len(rest) < 4 || checksum(rest[4:]) != binary.LittleEndian.Uint32(rest) {
		return nil, nil, fmt.Errorf("%w: not a record, or its checksum is wrong", errDamaged)
	}
	r := &record{}
	if err := json.Unmarshal(rest[4:], r); err != nil {
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
	f, err := os.Open(name)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			c.log.Debug("plan cache: record not read", "model", path, "error", err)
		}
		return nil, nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRecord))
	if err != nil {
		return nil, nil
	}
	r, g, err := decodeRecord(data)
	if err != nil {
		c.drop(name, err)
		return nil, nil
	}
	same := r.Files[0] == id
	for _, want := range r.Files[1:] {
		have, err := identityAt(filepath.Join(filepath.Dir(path), want.Name), want.Name)
		same = same && err == nil && have == want
	}
	if !same {
		c.log.Debug("plan cache: model has changed", "model", path)
		return nil, nil
	}
	c.touch(name)
	return r, g
}
