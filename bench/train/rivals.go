package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// rival trains models beside weir, in a process of its own.
type rival struct {
	name   string
	wheels string // of its list of versions in folder rivals
	script string
	own    bool // draws weights of its own
	asks   func(*request)
	peer   *peer
}

// rivals are all there are; the first one is what gradients and losses are compared with.
var rivals = []rival{
	{name: "PyTorch eager", wheels: "torch", script: eager},
	{name: "PyTorch compiled", wheels: "torch", script: eager,
		asks: func(r *request) { r.Compile = true }},
	{name: "ONNX Runtime", wheels: "onnxruntime", script: "bench/train/rivals/ort.py"},
	{name: "JAX", wheels: "jax", script: "bench/train/rivals/jaxed.py", own: true},
}

// eager is PyTorch's process that models are compared with, as the one rival.
func (b *bench) eager() []*rival {
	r := rivals[0]
	r.peer = b.peer
	return []*rival{&r}
}

// mostOfFirst bounds the difference of the first losses of those who begin from the same weights,
// in parts of them: beyond it they train something else.
const mostOfFirst = 1e-3

// begin has each of some rivals begin a model whose first loss is known, and returns those that do,
// which the caller stops, and what keeps each other one from it.
func (b *bench) begin(ctx context.Context, some []rival, asked request,
	first float64) (able []*rival, without map[string]string, err error) {
	without = map[string]string{}
	for _, r := range some {
		python, err := b.pythonOf(ctx, r.wheels)
		if err != nil {
			without[r.name] = err.Error()
			continue
		}
		r.peer, err = start(ctx, python, r.script, fmt.Sprint(b.Threads))
		if err != nil {
			return able, without, err
		}
		a, err := r.starts(asked, first)
		if err != nil {
			without[r.name] = err.Error()
			_ = r.peer.stop() // a process that failed may have ended in any way
			continue
		}
		b.Versions[r.name] = a.Version
		able = append(able, &r)
	}
	return able, without, nil
}

// starts has a rival begin a model, which must be the same and learn.
func (r *rival) starts(asked request, first float64) (*answer, error) {
	asked.Optimizer = common.asked()
	asked.Optimizer["fused"] = true // PyTorch's faster form
	if r.asks != nil {
		r.asks(&asked)
	}
	a, err := r.peer.ask(asked)
	if err != nil {
		return nil, err
	}
	if len(a.Losses) == 0 {
		return nil, errors.New("it gives no losses")
	}
	if d := math.Abs(a.Losses[0]/first - 1); !r.own && !(d < mostOfFirst) {
		return nil, fmt.Errorf("its first loss is %.5f, weir's %.5f", a.Losses[0], first)
	}
	return a, falling(a.Losses)
}

// pythonOf returns a Python with a list of wheels, which is installed into the user's cache first
// where it is not. That for PyTorch may be given instead.
func (b *bench) pythonOf(ctx context.Context, wheels string) (string, error) {
	if wheels == "torch" && b.python != "" {
		return b.python, nil
	}
	base := "python3"
	if _, err := exec.LookPath(oldest); err == nil {
		base = oldest
	}
	c := exec.CommandContext(ctx, base, "-c", `import pathlib, sys
sys.path.insert(0, "internal/conformance/peer")
import environment
print(environment.install(pathlib.Path(sys.argv[1])))`,
		filepath.Join("bench/train/rivals", "requirements-"+wheels+".txt"))
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("the wheels of its list cannot be installed: %w: run this from the "+
			"module's root, where a registry answers", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if python := lines[len(lines)-1]; python != "" {
		return python, nil
	}
	return "", errors.New("the installation names no Python")
}

// oldest is the newest Python for which ONNX Runtime's training build has a wheel.
const oldest = "python3.11"
