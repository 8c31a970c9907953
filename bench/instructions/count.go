package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/claims"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/zoo"
)

// models are those that bounds are for, as weir model new writes them.
var models = []string{"resnet50", "bert-base", "mobilenetv2"}

// program is something that runs a model.
type program struct {
	name, path string
	env        []string
}

// count runs a model on every program.
func count(e *emulator, programs []program, name string, o options) (*line, error) {
	args, err := write(e.folder, name, o)
	if err != nil {
		return nil, err
	}
	l := &line{Model: name, Layers: o.layers, Runs: map[string][]uint64{}}
	outputs := map[string][]float32{}
	for _, p := range programs {
		c, err := e.run(p.env, p.path, args...)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		if l.Runs[p.name], err = c.runs(); err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		if outputs[p.name], err = floats(args[3]); err != nil {
			return nil, err
		}
		if err := os.Remove(args[3]); err != nil {
			return nil, err
		}
		if p.name == neon && o.functions > 0 {
			if l.Functions, err = functions(p.path, c.blocks, o.functions); err != nil {
				return nil, err
			}
		}
		fmt.Fprintf(os.Stderr, "%-12s %-12s %v\n", name, p.name, l.Runs[p.name])
	}
	l.Neon, l.Plain, l.Peer = claims.Median(l.Runs[neon]), claims.Median(l.Runs[plain]),
		claims.Median(l.Runs[peer])
	if want := outputs[peer]; want != nil {
		if len(want) != len(outputs[neon]) || len(want) != len(outputs[plain]) {
			return nil, fmt.Errorf("outputs of %d, %d and %d values", len(outputs[neon]),
				len(outputs[plain]), len(want))
		}
		l.Distance = max(claims.Distance(outputs[neon], want),
			claims.Distance(outputs[plain], want))
	}
	return l, nil
}

// write writes a model and its inputs, and returns the arguments that programs take.
func write(folder, name string, o options) ([]string, error) {
	g, err := zoo.New(name, zoo.Options{Seed: 1, Layers: o.layers})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(folder, "model.onnx")
	if err := onnx.WriteFile(file, g, onnx.WriteOptions{}); err != nil {
		return nil, err
	}
	args := []string{file, strconv.Itoa(o.runs), floatOutput(g), filepath.Join(folder, "output")}
	i := slices.IndexFunc(zoo.All(), func(a zoo.Arch) bool { return a.Name == name })
	for n, in := range zoo.All()[i].Inputs {
		values := filepath.Join(folder, fmt.Sprint("input", n))
		if err := os.WriteFile(values, made(in), 0o666); err != nil {
			return nil, err
		}
		kind := map[tensor.DType]string{tensor.Float32: "1", tensor.Int64: "7"}[in.DType]
		args = append(args, in.Name, kind,
			strings.ReplaceAll(strings.Trim(fmt.Sprint(in.Shape), "[]"), " ", ","), values)
	}
	return args, nil
}

// floatOutput is the first output, which is of float32 in all models.
func floatOutput(g *graph.Graph) string { return g.Outputs[0].Name }

// made returns the bytes of an input: floats from 0 to 1, integers below their limit.
func made(in zoo.Input) []byte {
	n := 1
	for _, d := range in.Shape {
		n *= d
	}
	var data []byte
	state := uint32(1)
	for range n {
		state = state*1664525 + 1013904223
		if in.DType == tensor.Float32 {
			data = binary.NativeEndian.AppendUint32(data,
				math.Float32bits(float32(state>>8)/(1<<24)))
			continue
		}
		v := uint64(1)
		if in.Limit > 0 && !strings.Contains(in.Name, "mask") {
			v = uint64(state>>8) % uint64(in.Limit)
		}
		data = binary.NativeEndian.AppendUint64(data, v)
	}
	return data
}

// floats reads a file of float32.
func floats(file string) ([]float32, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	v := make([]float32, len(data)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.NativeEndian.Uint32(data[4*i:]))
	}
	return v, nil
}
