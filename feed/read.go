package feed

import (
	"archive/zip"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/raster"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/tensor/npy"
)

// The ends of names of files that are told apart by them.
const (
	suffixPB  = ".pb"
	suffixNPZ = ".npz"
	suffixNPY = ".npy"
)

// How files begin that are told apart by that (NumPy enhancement proposal 1; PKWARE's APPNOTE.TXT).
const (
	magicNPY = "\x93NUMPY"
	magicZip = "PK\x03\x04"
)

// imageSuffixes are the ends of names of files that hold images.
var imageSuffixes = []string{".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", ".ppm",
	".pgm", ".pbm", ".pam"}

// Reader reads the values of a model's inputs.
type Reader struct {
	// Inputs are those that the model has.
	Inputs []*graph.Value
	// Stdin is what "-" stands for; with Used, the model is read from it, and no input can be.
	Stdin io.Reader
	Used  bool
	// Images say how an image becomes an input.
	Images Images
	// Shapes are those that are asked for, by input: images are scaled to them.
	Shapes map[string]Shape
	// Cast converts numbers to the types that the model takes.
	Cast bool
	// Most is how many bytes of files are read at most, all inputs together: of more, no further is
	// read, and the error is device.ErrOutOfMemory. 0 stands for any number.
	Most int64

	room room // of what was read so far
}

// Read reads what each --input of a command line says, by input: NAME=FILE, NAME=- for standard
// input, NAME=[1,2,3], or FILE.npz for all inputs that it names. It fails with an error of kind
// [ErrInput] where the model has no such input or takes another type of elements.
func (r *Reader) Read(list []string) (map[string]*tensor.Tensor, error) {
	r.room = room{most: r.Most}
	list, err := spread(list)
	if err != nil {
		return nil, err
	}
	named, err := Pairs("--input", list)
	if err != nil {
		return nil, err
	}
	given := map[string]*tensor.Tensor{}
	stdin := 0
	for name, text := range named {
		v, err := r.input(name)
		if err != nil {
			return nil, err
		}
		if text == "-" {
			if stdin++; stdin > 1 || r.Used {
				return nil, errors.New("--input: standard input (-) holds the model or one " +
					"input, not several of them")
			}
		}
		if given[name], err = r.fitting(v, name, text); err != nil {
			return nil, err
		}
	}
	return given, nil
}

// fitting reads the value of input v, converted to its type where that is asked for.
func (r *Reader) fitting(v *graph.Value, name, text string) (*tensor.Tensor, error) {
	t, err := r.value(v, text)
	if err == nil && r.Cast {
		t, err = Cast(t, v.Type.DType)
	}
	if err != nil {
		return nil, fmt.Errorf("--input %s=%s: %w", name, text, err)
	}
	if t.DType != v.Type.DType && castable(t.DType) && castable(v.Type.DType) {
		return nil, fmt.Errorf("%w: input %q: given %v, the model takes %v: --cast converts it",
			ErrInput, name, t.DType, v.Type)
	}
	return t, nil
}

// Files reads files by input. It fails with an error of kind [ErrInput] where the model has no such
// input; the types of elements are those of the files.
func (r *Reader) Files(files map[string]string) (map[string]*tensor.Tensor, error) {
	r.room = room{most: r.Most}
	given := map[string]*tensor.Tensor{}
	for name, file := range files {
		v, err := r.input(name)
		if err != nil {
			return nil, err
		}
		if given[name], err = r.file(v, file); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return given, nil
}

// Pairs takes values of a flag apart that are NAME=VALUE, each name given once.
func Pairs(flag string, list []string) (map[string]string, error) {
	m := map[string]string{}
	for _, s := range list {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" || value == "" {
			return nil, fmt.Errorf("%s %s: want NAME=VALUE", flag, s)
		}
		if _, ok := m[name]; ok {
			return nil, fmt.Errorf("%s %s: %q is given twice", flag, s, name)
		}
		m[name] = value
	}
	return m, nil
}

// input finds the input of a name.
func (r *Reader) input(name string) (*graph.Value, error) {
	var names []string
	for _, v := range r.Inputs {
		if v.Name == name {
			return v, nil
		}
		names = append(names, v.Name)
	}
	return nil, fmt.Errorf("%w: the model has no input %q; it takes %s", ErrInput, name,
		strings.Join(names, ", "))
}

// spread replaces a FILE.npz without a name by an entry for each array in it.
func spread(list []string) ([]string, error) {
	var out []string
	for _, s := range list {
		if strings.Contains(s, "=") || !strings.HasSuffix(s, suffixNPZ) {
			out = append(out, s)
			continue
		}
		f, err := zip.OpenReader(s)
		if err != nil {
			return nil, fmt.Errorf("--input %s: %w", s, err)
		}
		for _, member := range f.File {
			out = append(out, strings.TrimSuffix(member.Name, suffixNPY)+"="+s)
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// value reads one input from a file, from standard input or from the text itself.
func (r *Reader) value(v *graph.Value, text string) (*tensor.Tensor, error) {
	switch {
	case strings.HasPrefix(text, "["):
		return parseValues(text, v.Type)
	case text == "-":
		return r.decode(v, r.Stdin, "")
	}
	return r.file(v, text)
}

// file reads one input from a file whose name tells its form: that of .npy unless it ends in
// another. What it holds decides between forms of which its name allows several.
func (r *Reader) file(v *graph.Value, path string) (*tensor.Tensor, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	suffix := strings.ToLower(filepath.Ext(path))
	var t *tensor.Tensor
	if suffix == suffixNPZ || slices.Contains(imageSuffixes, suffix) {
		t, err = r.decode(v, f, suffix)
	} else if suffix == suffixPB {
		t, err = decodePB(v, r.room.reader(f))
	} else {
		t, err = npy.ReadAs(r.room.reader(f), v.Type.DType)
	}
	return t, errors.Join(err, f.Close())
}

func decodePB(v *graph.Value, from io.Reader) (*tensor.Tensor, error) {
	data, err := io.ReadAll(from)
	if err != nil {
		return nil, err
	}
	return onnx.DecodeValue(data, v.Type)
}

// decode reads one input in the form that its first bytes tell; suffix is the end of its name, ""
// where it has none.
func (r *Reader) decode(v *graph.Value, from io.Reader, suffix string) (*tensor.Tensor, error) {
	b := bufio.NewReader(from)
	if head, _ := b.Peek(len(magicNPY)); string(head) == magicNPY {
		return npy.ReadAs(r.room.reader(b), v.Type.DType)
	}
	// what is made of the bytes takes room besides
	beside := room{most: r.Most}
	data, err := io.ReadAll(beside.reader(b))
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(data, []byte(magicZip)) {
		return r.readNPZ(data, v)
	}
	if _, _, err := raster.Config(data); err == nil || suffix != "" {
		return r.Images.read(data, v.Type, r.Shapes[v.Name])
	}
	t, err := onnx.DecodeValue(data, v.Type)
	if err != nil {
		return nil, fmt.Errorf("neither .npy, .npz, an image nor .pb: %w", err)
	}
	return t, nil
}

// readNPZ reads the array of an input's name from an archive, or the only one there is (NumPy,
// numpy.savez).
func (r *Reader) readNPZ(data []byte, v *graph.Value) (*tensor.Tensor, error) {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	found, err := arrayIn(z, v.Name)
	if err != nil {
		return nil, err
	}
	f, err := found.Open()
	if err != nil {
		return nil, err
	}
	t, err := npy.ReadAs(r.room.reader(f), v.Type.DType)
	return t, errors.Join(err, f.Close())
}

// arrayIn is the array of that name in an archive, or the only one.
func arrayIn(z *zip.Reader, name string) (found *zip.File, err error) {
	var names []string
	for _, f := range z.File {
		own := strings.TrimSuffix(f.Name, suffixNPY)
		if names = append(names, own); own == name || len(z.File) == 1 {
			found = f
		}
	}
	if found == nil {
		return nil, fmt.Errorf("it has no array %q; it has %s", name, strings.Join(names, ", "))
	}
	return found, nil
}
