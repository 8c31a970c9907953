package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/internal/wholefile"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/tensor/npy"
)

// resultFlags say where the outputs of an inference go, and how they are shown.
type resultFlags struct {
	output string
	show   outputFlags
	asJSON bool
}

func (f *resultFlags) add(c *cobra.Command) {
	f.show.add(c)
	c.Flags().
		StringVar(&f.output, "output", "", "folder to write the outputs to as .npy files, "+
			"sequences, optionals and maps as .pb; it is made if it is missing; - writes the "+
			"only output to standard output as .npy")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object")
}

// check refuses flags that exclude each other.
func (f *resultFlags) check(c *cobra.Command) error {
	if f.asJSON && f.output == "-" {
		return errors.New("--json and --output - both want standard output: choose one")
	}
	return f.show.check(c)
}

// printOutputs shows outputs, unless standard output has one of them.
func (f *resultFlags) printOutputs(c *cobra.Command, results []outputResult,
	outs []*tensor.Tensor) {
	if f.output != "-" {
		f.show.print(c.OutOrStdout(), results, outs)
	}
}

// take writes outputs where they are to go, and describes them.
func (f *resultFlags) take(c *cobra.Command, names []string,
	outs []*tensor.Tensor) ([]outputResult, error) {
	if f.output == "-" {
		if n := len(outs); n != 1 {
			return nil, fmt.Errorf("--output -: the model has %d outputs: name a folder", n)
		}
	} else if f.output != "" {
		if err := os.MkdirAll(f.output, 0o777); err != nil {
			return nil, failed(err)
		}
	}
	results := []outputResult{}
	for k, t := range outs {
		o := outputResult{Name: names[k], DType: t.DType.String(),
			Shape: append([]int{}, t.Shape...)}
		var err error
		switch {
		case f.output == "-":
			err = npy.Write(c.OutOrStdout(), t)
		case f.output != "":
			err = o.write(c.Context(), f.output, k, t)
		}
		if err != nil {
			return nil, failed(fmt.Errorf("output %s: %w", o.Name, err))
		}
		results = append(results, o)
	}
	return results, f.show.describe(results, outs)
}

// write writes output k to a file in a folder: sequences, optionals and maps, for which NumPy has
// no file, as ONNX's test data has them.
func (o *outputResult) write(ctx context.Context, dir string, k int, t *tensor.Tensor) error {
	ending, write := ".npy", writeNPY
	if t.DType.IsContainer() {
		ending, write = ".pb", writeValue
	}
	path := filepath.Join(dir, fileName(o.Name, k)+ending)
	o.File = path
	return writeOut(ctx, path, func() error { return write(path, t) })
}

// fileName makes an output's name safe as a file name; names that were changed get their number, so
// that two never collide.
func fileName(name string, k int) string {
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, name)
	if safe != name || strings.HasPrefix(safe, ".") {
		safe = fmt.Sprintf("%s_%d", strings.TrimLeft(safe, "."), k)
	}
	return safe
}

func writeNPY(path string, t *tensor.Tensor) error {
	return wholefile.Write(path, func(w io.Writer) error { return npy.Write(w, t) })
}

func writeValue(path string, t *tensor.Tensor) error {
	data, err := onnx.EncodeValue("", t)
	if err != nil {
		return err
	}
	return wholefile.Write(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}
