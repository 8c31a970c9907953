package main

import (
	"embed"
	"os"
	"path/filepath"
)

//go:embed python/*.py
var scripts embed.FS

// packages are the programs of rung 2 and what each is about. A script's name is that of no package
// that something may import: its folder comes first.
var packages = []struct{ name, artefact string }{
	{"bindings", "cuda-bindings 13.4.4, cuda-core 1.2.2"},
	{"numba", "numba-cuda 0.30.4"},
	{"cupy", "cupy-cuda13x 14.2.0"},
	{"triton", "triton 3.9.0"},
}

func pythonPrograms(l *ladder) ([]program, error) {
	python, err := environment(l.ctx, "python")
	if err != nil {
		return nil, err
	}
	if err := os.CopyFS(l.dir, scripts); err != nil {
		return nil, err
	}
	var programs []program
	for _, p := range packages {
		programs = append(programs, program{rung: 2, name: p.name, artefact: p.artefact,
			version: 13040, argv: []string{python, "-W", "ignore",
				filepath.Join(l.dir, "python", "with_"+p.name+".py")}})
	}
	return programs, nil
}
