package onnx

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/internal/wholefile"
	"github.com/weirgpu/weir/tensor"
)

// WriteOptions says how a model is written. The zero WriteOptions suits most.
type WriteOptions struct {
	// Types adds the types of all values that nodes compute, for viewers and for runtimes that
	// infer less.
	Types bool
	// MaxInline is the total size in bytes up to which weights are written into the model file
	// itself; 0 means as many as a protobuf message can hold. When the weights are larger, they are
	// written to a file NAME.data next to the model file.
	MaxInline int64
}

// maxMessage is the size that a protobuf message must stay below.
const maxMessage = 1<<31 - 1

// headroom is left under maxMessage for everything but weights when the place of the weights is
// decided.
const headroom = 64 << 20

// minExternal is the size from which a tensor goes to the external file, when there is one: shapes
// and scalars, which runtimes want to see when they load, stay in the model.
const minExternal = 1024

// externalAlign is where external tensors start, so that any runtime can map each.
const externalAlign = 4096

// ErrTooLarge says that a model does not fit one stream; [WriteFile] can write it.
var ErrTooLarge = errors.New("model is too large for one message")

// Write writes a graph as an ONNX model to a stream. The graph must satisfy graph.Check, with one
// exception: it may hold operators that weir does not have, as a model that was read with
// Options.SkipCheck may. It fails with [ErrTooLarge] at 2 GiB, with [ErrOpset] when nodes need two
// versions of one operator set, and with op.ErrUnsupported on operators of weir's own for which it
// has no function of ONNX operators.
func Write(w io.Writer, g *graph.Graph, o WriteOptions) error {
	return fault.Do(func() error {
		m, err := modelProto(g, o, nil)
		if err != nil {
			return err
		}
		return m.writeTo(w)
	})
}

// WriteFile writes a graph as an ONNX model file with the errors of [Write], and weights that do
// not fit into one message as external data in path + ".data". Each file is written under another
// name and then renamed, the data first: readers see the old model or the new one, and a model that
// is still mapped stays as it is.
func WriteFile(path string, g *graph.Graph, o WriteOptions) error {
	return fault.Do(func() error { return writeFile(path, g, o) })
}

func writeFile(path string, g *graph.Graph, o WriteOptions) error {
	limit := o.MaxInline
	if limit == 0 {
		limit = maxMessage - headroom
	}
	var ext *externalLayout
	if weightBytes(g) > limit {
		ext = &externalLayout{location: filepath.Base(path) + ".data",
			at: map[*tensor.Tensor]int64{}}
	}
	m, err := modelProto(g, o, ext)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if ext != nil {
		if err := wholefile.Write(path+".data", ext.writeTo); err != nil {
			return err
		}
	}
	return wholefile.Write(path, m.writeTo)
}

// weightBytes adds up the distinct constants of a graph and its bodies.
func weightBytes(g *graph.Graph) int64 {
	var n int64
	seen := map[*tensor.Tensor]bool{}
	g.Walk(func(g *graph.Graph) {
		for _, c := range g.Constants() {
			if t := c.Const(); !seen[t] {
				seen[t] = true
				n += int64(len(t.Data))
			}
		}
	})
	return n
}

// externalLayout assigns the large tensors their places in the external file.
type externalLayout struct {
	location string
	at       map[*tensor.Tensor]int64
	order    []*tensor.Tensor
	end      int64
}

// place returns the offset of a tensor.
func (e *externalLayout) place(t *tensor.Tensor) int64 {
	off, ok := e.at[t]
	if !ok {
		off = (e.end + externalAlign - 1) / externalAlign * externalAlign
		e.at[t], e.order, e.end = off, append(e.order, t), off+int64(len(t.Data))
	}
	return off
}

func (e *externalLayout) writeTo(w io.Writer) error {
	var at int64
	zeros := make([]byte, externalAlign)
	for _, t := range e.order {
		if _, err := w.Write(zeros[:e.at[t]-at]); err != nil {
			return err
		}
		if _, err := w.Write(t.Data); err != nil {
			return err
		}
		at = e.at[t] + int64(len(t.Data))
	}
	return nil
}

// irVersions gives the file format version that came with each version of ONNX's operator set
// (onnx/helper.py, VERSION_TABLE), from the oldest format whose initialisers need not be inputs.
var irVersions = []struct{ opset, ir int }{{8, 4}, {9, 4}, {10, 5}, {11, 6}, {14, 7}, {18, 8},
	{20, 9}, {22, 10}, {23, 11}, {24, 12}, {27, 13}}

func irVersion(opset int) int {
	for _, v := range irVersions {
		if opset <= v.opset {
			return v.ir
		}
	}
	return 14
}

func modelProto(g *graph.Graph, o WriteOptions, ext *externalLayout) (*message, error) {
	opsets, err := opsetsOf(g)
	if err != nil {
		return nil, err
	}
	w := &writer{o: o, ext: ext, opset: opsets[""], shared: sharedTensors(g),
		hoisted:   map[*tensor.Tensor]string{},
		overloads: map[string]string{}}
	body, err := w.main(g)
	if err != nil {
		return nil, err
	}
	m := &message{}
	m.int(1, int64(w.ir()))
	m.meta(g.Meta)
	m.nest(7, body)
	for _, domain := range slices.Sorted(maps.Keys(opsets)) {
		m.nest(8, opsetProto(domain, opsets[domain]))
	}
	for _, f := range w.functions {
		m.nest(25, f)
	}
	if m.len() > maxMessage {
		return nil, fmt.Errorf(
			"%w: %d bytes, limit %d: write it to a file, which keeps weights in another",
			ErrTooLarge, m.len(), maxMessage)
	}
	return m, nil
}

// ir is the version of the format that the model needs.
func (w *writer) ir() int {
	ir := irVersion(w.opset)
	if len(w.functions) > 0 {
		ir = max(ir, functionIR)
	}
	return ir
}

func opsetProto(domain string, version int) *message {
	m := &message{}
	m.str(1, domain)
	m.int(2, int64(version))
	return m
}

// pair writes a StringStringEntryProto.
func pair(k, v string) *message {
	m := &message{}
	m.str(1, k)
	m.str(2, v)
	return m
}

// meta writes the fields of a ModelProto that come from Graph.Meta.
func (m *message) meta(meta map[string]string) {
	m.text(2, meta[metaProducer])
	m.text(3, meta[metaProducerVersion])
	m.text(4, meta[metaDomain])
	if v, err := strconv.ParseInt(meta[metaModelVersion], 10, 64); err == nil {
		m.int(5, v)
	}
	m.text(6, meta[metaDoc])
	for _, k := range slices.Sorted(maps.Keys(meta)) {
		if _, own := ownMeta[k]; !own {
			m.nest(14, pair(k, meta[k]))
		}
	}
}

var ownMeta = map[string]struct{}{metaProducer: {}, metaProducerVersion: {}, metaDomain: {},
	metaModelVersion: {}, metaDoc: {}}

// sharedTensors returns the constants that more than one graph uses, as bodies do that share an
// outer constant. They are written once, in the main graph.
func sharedTensors(g *graph.Graph) map[*tensor.Tensor]bool {
	first := map[*tensor.Tensor]*graph.Graph{}
	shared := map[*tensor.Tensor]bool{}
	g.Walk(func(g *graph.Graph) {
		for _, c := range g.Constants() {
			t := c.Const()
			if f := first[t]; f != nil && f != g {
				shared[t] = true
			}
			first[t] = g
		}
	})
	return shared
}
