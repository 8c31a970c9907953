package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/op"
	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/tensor/npy"
)

type runResult struct {
	Outputs []outputFile `json:"outputs"`
	LoadMS  float64      `json:"load_ms"`
	RunMS   float64      `json:"run_ms"`
	Cached  bool         `json:"cached"` // whether the plan came from the cache
}

type outputFile struct {
	Name  string `json:"name"`
	DType string `json:"dtype"`
	Shape []int  `json:"shape"`
	File  string `json:"file"` // "" when it was not written
}

func newRun() *cobra.Command {
	var dev deviceFlags
	var model modelFlags
	var output string
	var asJSON bool
	c := &cobra.Command{
		Use:   "run MODEL",
		Short: "Run one inference",
		Long: "Run one inference of an ONNX model. Inputs that are not given are made up: floats " +
			"uniform from 0 to 1, integers 1,\n" +
			"booleans true, symbolic dimensions 1 unless --shape says otherwise, sequences and " +
			"optionals of one value. A .pb file holds a\n" +
			"TensorProto, SequenceProto, OptionalProto or MapProto.",
		Args:              exactly(1),
		ValidArgsFunction: files("onnx"),
		RunE: func(c *cobra.Command, args []string) error {
			return runModel(
				c,
				args[0],
				&dev,
				&model,
				output,
				func(res *runResult, outs []*tensor.Tensor) error {
					if asJSON {
						return printJSON(c.OutOrStdout(), res)
					}
					printRun(c, res, outs)
					return nil
				},
			)
		},
	}
	dev.add(c)
	model.add(c)
	model.addRun(c)
	c.Flags().
		StringVar(&output, "output", "", "folder to write the outputs to as .npy files, "+
			"sequences, optionals and maps as .pb; it is made if it is missing")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func printRun(c *cobra.Command, res *runResult, outs []*tensor.Tensor) {
	for i, o := range res.Outputs {
		fmt.Fprintf(c.OutOrStdout(), "%s\t%s\t%v\t%s\n", o.Name, o.DType, o.Shape,
			preview(outs[i], o.File))
	}
	from := ""
	if res.Cached {
		from = " from the plan cache"
	}
	fmt.Fprintf(c.ErrOrStderr(), "load %.1f ms%s, run %.2f ms\n", res.LoadMS, from, res.RunMS)
}

// preview shows where an output went, or its first elements.
func preview(t *tensor.Tensor, file string) string {
	if file != "" {
		return file
	}
	if t.DType.IsContainer() {
		return t.String()
	}
	var b strings.Builder
	for i := range min(t.Len(), 8) {
		fmt.Fprintf(&b, "%v ", t.At(i))
	}
	if t.Len() > 8 {
		b.WriteString("...")
	}
	return b.String()
}

// runModel runs a model once and shows the result, before the plan is kept for the next start.
func runModel(c *cobra.Command, path string, dev *deviceFlags, model *modelFlags, output string,
	show func(res *runResult, outs []*tensor.Tensor) error) error {
	start := time.Now()
	on, err := dev.open()
	if err != nil {
		return err
	}
	defer on.Close()
	m, err := compileModel(c, path, model, dev, on)
	if err != nil {
		return err
	}
	defer m.model.Close()
	if len(m.made) > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "made up: %s (floats 0 to 1 from seed %d, integers 1)\n",
			strings.Join(m.made, ", "), model.seed)
	}
	i, unload, err := m.load(on, model)
	if err != nil {
		return failed(fmt.Errorf("%s: %w", path, err))
	}
	defer unload()
	loaded := time.Now()
	if err := i.Run(c.Context(), device.Open); err != nil {
		return failedRun(path, err)
	}
	res := &runResult{
		LoadMS: ms(loaded.Sub(start)),
		RunMS:  ms(time.Since(loaded)),
		Cached: m.cached.Cached(),
	}
	outs, err := writeOutputs(res, i, m, output)
	if err != nil {
		return err
	}
	if err := show(res, outs); err != nil {
		return err
	}
	m.keep()
	return nil
}

// failedRun is the error of a run: an operator that refuses its operands means that the model or an
// input file is wrong.
func failedRun(path string, err error) error {
	err = fmt.Errorf("%s: %w", path, err)
	for _, kind := range []error{op.ErrInput, op.ErrAttr, op.ErrUnsupported, tensor.ErrShape} {
		if errors.Is(err, kind) {
			return err
		}
	}
	return failed(err)
}

// load makes an instance with its inputs filled; unload gives its memory back.
func (m *compiled) load(on *machine.Machine, f *modelFlags) (i *engine.Instance, unload func(),
	err error) {
	m.model.Evict(nil)
	s, err := engine.Load(
		m.plan,
		engine.Options{
			Device:    on.Device,
			Pool:      on.Pool,
			PackPool:  on.Pool,
			Quota:     scenario.NewQuota("--memory", f.memory),
			HostQuota: on.Host,
			Weights:   m.cached.Weights,
			Packed:    m.model.Evict,
		},
	)
	if err != nil {
		return nil, nil, err
	}
	if err = m.model.Unchanged(); err == nil {
		i, err = s.Take()
	}
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	m.session = s
	unload = func() { i.Put(); s.Close() }
	if err := scenario.FillInputs(i, m.inputs); err != nil {
		unload()
		return nil, nil, err
	}
	return i, unload, nil
}

// keep puts the plan of a loaded model into the cache, which is no part of the work: what keeps it
// from that is nobody's trouble.
func (m *compiled) keep() {
	if m.cached.Fresh() {
		_ = m.session.WithWeights(m.cached.Save)
	}
}

func writeOutputs(res *runResult, i *engine.Instance, m *compiled, dir string) ([]*tensor.Tensor,
	error) {
	if dir != "" {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return nil, failed(err)
		}
	}
	var outs []*tensor.Tensor
	res.Outputs = []outputFile{}
	for k, t := range i.Outputs() {
		o := outputFile{
			Name:  m.plan.Graph.Outputs[k].Name,
			DType: t.DType.String(),
			Shape: append([]int{}, t.Shape...),
		}
		if dir != "" {
			write, ext := writeNPY, ".npy"
			if t.DType.IsContainer() {
				write, ext = writeValue, ".pb"
			}
			o.File = filepath.Join(dir, fileName(o.Name, k)+ext)
			if err := write(o.File, t); err != nil {
				return nil, failed(fmt.Errorf("output %s: %w", o.Name, err))
			}
		}
		res.Outputs = append(res.Outputs, o)
		outs = append(outs, t.Clone())
	}
	return outs, nil
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

func writeNPY(path string, t *tensor.Tensor) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return npy.Write(f, t)
}

// writeValue writes a sequence, optional or map, for which NumPy has no file, as ONNX's test data
// has it.
func writeValue(path string, t *tensor.Tensor) error {
	b, err := onnx.EncodeValue("", t)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o666)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
