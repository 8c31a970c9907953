package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/pass"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/tensor"
)

// deviceFlags choose where and how a model runs. They mean the same in every command.
type deviceFlags struct {
	device    string
	threads   int
	precision string
}

func (f *deviceFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.device, "device", "cpu:0", "device to run on")
	c.Flags().IntVar(&f.threads, "threads", 0, "cores to use (default: the cores this process may use)")
	c.Flags().StringVar(&f.precision, "precision", "auto", "arithmetic: fp32 or auto")
}

// open checks the flags and opens the device and a pool for it; close gives both back.
func (f *deviceFlags) open() (d device.Device, p *cpu.Pool, close func(), err error) {
	if f.precision != "fp32" && f.precision != "auto" {
		return nil, nil, nil, fmt.Errorf("--precision %s: want fp32 or auto", f.precision)
	}
	if f.threads < 0 || f.threads > 4096 {
		return nil, nil, nil, fmt.Errorf("--threads %d: want a number from 0 to 4096", f.threads)
	}
	dev, err := cpu.Open(f.device, cpu.Options{})
	if err != nil {
		return nil, nil, nil, fmt.Errorf("--device %s: %w", f.device, err)
	}
	pool := cpu.NewPool(cpu.PoolOptions{Threads: f.threads})
	return dev, pool, func() { pool.Close(); _ = dev.Close() }, nil
}

// modelFlags choose the inputs of a model.
type modelFlags struct {
	inputs []string
	shapes []string
	seed   uint64
}

func (f *modelFlags) add(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.shapes, "shape", nil, "shape of an input, NAME=1x3x224x224 (repeat for more)")
	c.Flags().Uint64Var(&f.seed, "seed", 1, "seed of made-up inputs")
}

func (f *modelFlags) addInputs(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.inputs, "input", nil, "an input from a .npy file, NAME=FILE (repeat for more)")
}

// resolve returns the inputs' shapes and the inputs themselves.
func (f *modelFlags) resolve(g *graph.Graph) (map[string][]int, []*tensor.Tensor, []string, error) {
	files, err := pairs("--input", f.inputs)
	if err != nil {
		return nil, nil, nil, err
	}
	given, err := scenario.ReadInputs(g, files)
	if err != nil {
		return nil, nil, nil, err
	}
	asked := map[string]scenario.Shape{}
	texts, err := pairs("--shape", f.shapes)
	if err != nil {
		return nil, nil, nil, err
	}
	for name, text := range texts {
		if asked[name], err = scenario.ParseShape(text); err != nil {
			return nil, nil, nil, fmt.Errorf("--shape %s: %w", name, err)
		}
	}
	shapes := scenario.InputShapes(g, asked, given)
	inputs, err := scenario.MakeInputs(g, shapes, given, f.seed)
	var made []string
	for _, v := range g.Inputs {
		if given[v.Name] == nil {
			made = append(made, v.Name)
		}
	}
	return shapes, inputs, made, err
}

func pairs(flag string, list []string) (map[string]string, error) {
	m := map[string]string{}
	for _, s := range list {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" || value == "" {
			return nil, fmt.Errorf("%s %s: want NAME=VALUE", flag, s)
		}
		m[name] = value
	}
	return m, nil
}

// compiled is a model read, planned and ready to be loaded.
type compiled struct {
	model  *onnx.Model
	plan   *plan.Plan
	inputs []*tensor.Tensor
	made   []string // inputs that were made up
}

func compileModel(c *cobra.Command, path string, f *modelFlags, threads int, passes pass.Options) (*compiled, error) {
	m, err := onnx.Open(path, onnx.Options{})
	if err != nil {
		return nil, err
	}
	shapes, inputs, made, err := f.resolve(m.Graph)
	if err == nil {
		var p *plan.Plan
		if p, err = plan.Compile(c.Context(), m.Graph, plan.Options{Shapes: shapes, Threads: threads, Passes: passes}); err == nil {
			return &compiled{m, p, inputs, made}, nil
		}
	}
	_ = m.Close()
	return nil, fmt.Errorf("%s: %w", path, err)
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
