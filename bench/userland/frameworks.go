package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// framework is a script of rung 3 or 4 with its cases.
type framework struct {
	rung             int
	script, artefact string
	cases            []string
	env              []string
}

const (
	pytorch = "torch 2.13.0, CUDA 13.0"
	jax     = "jax 0.10.2, jax-cuda13-plugin 0.10.2"
	vllm    = "vllm 0.32.0"
)

var frameworks = []framework{
	{rung: 3, script: "with_torch", artefact: pytorch, cases: []string{"devices", "memory",
		"contents", "streams", "graphs", "loader", "processes", "ends fork", "ends exit",
		"ends raise", "ends kill", "ends abort", "ends hard", "ends thread"}},
	{rung: 3, script: "with_torch", artefact: pytorch + ", expandable segments",
		cases: []string{"memory", "contents", "graphs"},
		env:   []string{"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"}},
	{rung: 3, script: "with_torch", artefact: pytorch + ", the driver's pools",
		cases: []string{"memory", "contents", "graphs"},
		env:   []string{"PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync"}},
	{rung: 4, script: "with_jax", artefact: jax,
		cases: []string{"devices", "limit", "contents", "compiled"}},
	{rung: 4, script: "with_vllm", artefact: vllm, cases: []string{"platform", "start", "steps"}},
}

// exits are how the cases of with_torch.py end that do not end with 0; 128 and the number of the
// signal where it was one.
var exits = map[string]int{"ends exit": 3, "ends raise": 1, "ends kill": 137, "ends abort": 134,
	"ends hard": 5}

// torchPrograms and startPrograms are rungs 3 and 4, which share an environment of 7 GB.
func torchPrograms(l *ladder) ([]program, error) { return frameworkPrograms(l, 3) }
func startPrograms(l *ladder) ([]program, error) { return frameworkPrograms(l, 4) }

func frameworkPrograms(l *ladder, rung int) ([]program, error) {
	out, err := exec.CommandContext(l.ctx, "python3", "--version").Output()
	if err != nil || !strings.HasPrefix(string(out), "Python 3.11.") {
		return nil, fmt.Errorf("%w for %q: the list is of Python 3.11", errNoWheels, out)
	}
	python, err := environment(l.ctx, "frameworks")
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(l.dir, "python")); err != nil {
		if err := os.CopyFS(l.dir, scripts); err != nil {
			return nil, err
		}
	}
	var programs []program
	for _, f := range frameworks {
		if f.rung != rung {
			continue
		}
		for _, c := range f.cases {
			script := filepath.Join(l.dir, "python", f.script+".py")
			programs = append(programs, program{rung: f.rung, name: c, artefact: f.artefact,
				version: 13040, env: f.env, exit: exits[c],
				argv: slices.Concat([]string{python, "-W", "ignore", script}, strings.Fields(c))})
		}
	}
	return programs, nil
}
