package main

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/raster"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/tensor/npy"
)

// imageSuffixes are the ends of names of files that hold images.
var imageSuffixes = []string{".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", ".ppm",
	".pgm", ".pbm", ".pam"}

// inputReader reads the values of a model's inputs.
type inputReader struct {
	graph  *graph.Graph
	stdin  io.Reader
	images imageOptions
	shapes map[string]scenario.Shape // that are asked for
	cast   bool
	model  string // where it comes from
	room   scenario.Room
}

// read reads what each --input says: NAME=FILE, NAME=[1,2,3], or FILE.npz for all inputs that it
// names.
func (r *inputReader) read(list []string) (map[string]*tensor.Tensor, error) {
	list, err := r.spread(list)
	if err != nil {
		return nil, err
	}
	named, err := pairs("--input", list)
	if err != nil {
		return nil, err
	}
	given := map[string]*tensor.Tensor{}
	stdin := 0
	for name, text := range named {
		v := r.graph.Input(name)
		if v == nil {
			return nil, fmt.Errorf("%w: the model has no input %q; it takes %s", scenario.ErrInput,
				name, strings.Join(inputNames(r.graph), ", "))
		}
		if text == "-" {
			if stdin++; stdin > 1 || r.model == "-" {
				return nil, errors.New("--input: standard input (-) holds the model or one " +
					"input, not several of them")
			}
		}
		t, err := r.value(v, text)
		if err == nil && r.cast {
			t, err = castTensor(t, v.Type.DType)
		}
		if err != nil {
			return nil, fmt.Errorf("--input %s=%s: %w", name, text, err)
		}
		if t.DType != v.Type.DType && castable(t.DType) && castable(v.Type.DType) {
			return nil, fmt.Errorf("%w: input %q: given %v, the model takes %v: --cast converts it",
				scenario.ErrInput, name, t.DType, v.Type)
		}
		given[name] = t
	}
	return given, nil
}

func inputNames(g *graph.Graph) []string {
	var names []string
	for _, v := range g.Inputs {
		names = append(names, v.Name)
	}
	return names
}

// spread replaces a FILE.npz without a name by an entry for each array in it.
func (r *inputReader) spread(list []string) ([]string, error) {
	var out []string
	for _, s := range list {
		if strings.Contains(s, "=") || !strings.HasSuffix(s, ".npz") {
			out = append(out, s)
			continue
		}
		f, err := zip.OpenReader(s)
		if err != nil {
			return nil, fmt.Errorf("--input %s: %w", s, err)
		}
		for _, member := range f.File {
			out = append(out, strings.TrimSuffix(member.Name, ".npy")+"="+s)
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// value reads one input from a file, from standard input or from the text itself.
func (r *inputReader) value(v *graph.Value, text string) (*tensor.Tensor, error) {
	if strings.HasPrefix(text, "[") {
		return parseValues(text, v.Type)
	}
	suffix := strings.ToLower(filepath.Ext(text))
	if text != "-" && suffix != ".npz" && !slices.Contains(imageSuffixes, suffix) {
		return r.room.ReadFile(text, v.Type)
	}
	data, err := r.content(text)
	if err != nil {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(data, []byte("\x93NUMPY")):
		return npy.ReadAs(r.room.Reader(bytes.NewReader(data)), v.Type.DType)
	case bytes.HasPrefix(data, []byte("PK\x03\x04")):
		return r.readNPZ(data, v)
	}
	if _, _, err := raster.Config(data); err == nil || suffix != "" {
		return r.images.read(data, v.Type, r.shapes[v.Name])
	}
	t, err := onnx.DecodeValue(data, v.Type)
	if err != nil {
		return nil, fmt.Errorf("neither .npy, .npz, an image nor .pb: %w", err)
	}
	return t, nil
}

// content reads all of a file, or of standard input. What is made of it takes room besides.
func (r *inputReader) content(name string) ([]byte, error) {
	beside := scenario.Room{Most: r.room.Most}
	if name == "-" {
		return io.ReadAll(beside.Reader(r.stdin))
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(beside.Reader(f))
	return data, errors.Join(err, f.Close())
}

// readNPZ reads the array of an input's name from an archive, or the only one there is (NumPy,
// numpy.savez).
func (r *inputReader) readNPZ(data []byte, v *graph.Value) (*tensor.Tensor, error) {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	var found *zip.File
	var names []string
	for _, f := range z.File {
		name := strings.TrimSuffix(f.Name, ".npy")
		if names = append(names, name); name == v.Name {
			found = f
		}
	}
	if found == nil && len(z.File) == 1 {
		found = z.File[0]
	}
	if found == nil {
		return nil, fmt.Errorf("it has no array %q; it has %s", v.Name, strings.Join(names, ", "))
	}
	f, err := found.Open()
	if err != nil {
		return nil, err
	}
	t, err := npy.ReadAs(r.room.Reader(f), v.Type.DType)
	return t, errors.Join(err, f.Close())
}

// parseValues reads [1,2,3], with spaces or commas between, as a tensor of an input's type: of its
// shape where that has as many elements, else of as many in its last axis.
func parseValues(text string, typ op.Type) (*tensor.Tensor, error) {
	inner, ok := strings.CutSuffix(strings.TrimPrefix(text, "["), "]")
	if !ok || strings.ContainsAny(inner, "[]") {
		return nil, errors.New("want [1,2,3], without brackets inside: the model says the shape")
	}
	words := strings.FieldsFunc(inner, func(c rune) bool { return c == ',' || c == ' ' })
	shape := valuesShape(len(words), typ)
	if typ.DType == tensor.String {
		return tensor.FromStrings(words, shape...), nil
	}
	values := make([]float64, len(words))
	for i, w := range words {
		if _, err := fmt.Sscan(w, &values[i]); err != nil {
			return nil, fmt.Errorf("%q is no number", w)
		}
	}
	return castTensor(tensor.From(values, shape...), typ.DType)
}

// valuesShape is the shape of n elements of a type whose sizes may be open.
func valuesShape(n int, typ op.Type) []int {
	if !typ.Ranked || len(typ.Shape) == 0 && n != 1 {
		return []int{n}
	}
	shape, product, open := make([]int, len(typ.Shape)), 1, -1
	for i, d := range typ.Shape {
		size, known := d.Int()
		if shape[i] = size; !known {
			shape[i], open = 1, i
		}
		product *= shape[i]
	}
	if open >= 0 && product > 0 && n%product == 0 {
		shape[open] = n / product
		product = n
	}
	if product != n {
		return []int{n}
	}
	return shape
}
