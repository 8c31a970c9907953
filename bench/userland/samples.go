package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

//go:embed samples
var sources embed.FS

// toolkit is one version of CUDA: where its headers and its runtime lie, and what compiles for it.
type toolkit struct {
	major, version int // such as 12 and 12090
	headers        []string
	libraries      string
	compiler       string // folder of CUDA 13's compiler: CUDA 12's wheels have none
}

// toolkits fetches both.
func toolkits(ctx context.Context) ([]toolkit, error) {
	older, err := fetch(ctx, "cuda12")
	if err != nil {
		return nil, err
	}
	newer, err := fetch(ctx, "cuda13")
	if err != nil {
		return nil, err
	}
	top := filepath.Join(newer, "nvidia", "cu13")
	old := filepath.Join(older, "nvidia")
	return []toolkit{
		{12, 12090, []string{filepath.Join(old, "cuda_runtime", "include"),
			filepath.Join(old, "cuda_nvcc", "include"), filepath.Join(old, "cuda_cccl", "include")},
			filepath.Join(old, "cuda_runtime", "lib"), top},
		{13, 13040, []string{filepath.Join(top, "include"), filepath.Join(top, "include", "cccl")},
			filepath.Join(top, "lib"), top},
	}, nil
}

// nvcc prepares a call of the compiler that knows nothing but this toolkit.
func (k toolkit) nvcc(ctx context.Context, temp string, args ...string) *exec.Cmd {
	all := []string{"-noprof", "-arch=sm_90", "-L" + k.libraries}
	for _, h := range k.headers {
		all = append(all, "-isystem", h)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(k.compiler, "bin", "nvcc"),
		append(all, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+temp, "PATH="+strings.Join([]string{
		filepath.Join(k.compiler, "bin"), filepath.Join(k.compiler, "nvvm", "bin"),
		os.Getenv("PATH")}, string(os.PathListSeparator)))
	return cmd
}

func output(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, out)
	}
	return nil
}

// compile makes the program of all samples, once with the runtime within it and once with the
// shared one, and returns the folder that holds the two, static and shared. Objects are the same
// for both.
func (k toolkit) compile(ctx context.Context) (string, error) {
	var all [][]byte
	files, err := sources.ReadDir("samples")
	if err != nil {
		return "", err
	}
	for _, f := range files {
		text, err := sources.ReadFile("samples/" + f.Name())
		if err != nil {
			return "", err
		}
		all = append(all, text)
	}
	all = append(all, []byte(k.libraries))
	dir, there, err := kept(fmt.Sprintf("samples%d", k.major), all...)
	if err != nil || there {
		return dir, err
	}
	return dir, fill(dir, func(temp string) error {
		if err := os.CopyFS(temp, sources); err != nil {
			return err
		}
		objects, err := k.objects(ctx, temp)
		if err != nil {
			return err
		}
		return k.link(ctx, temp, objects)
	})
}

// objects compiles each source, as many at a time as there are processors.
func (k toolkit) objects(ctx context.Context, temp string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(temp, "samples", "*.cu"))
	if err != nil {
		return nil, err
	}
	objects := make([]string, len(files))
	errs := make([]error, len(files))
	places := make(chan struct{}, runtime.NumCPU())
	var wg sync.WaitGroup
	for i, f := range files {
		objects[i] = strings.TrimSuffix(f, ".cu") + ".o"
		args := []string{"-c", "-o", objects[i], f}
		if filepath.Base(f) == "perthread.cu" {
			args = append(args, "--default-stream", "per-thread")
		}
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			errs[i] = output(k.nvcc(ctx, temp, args...))
		})
	}
	wg.Wait()
	return objects, errors.Join(errs...)
}

func (k toolkit) link(ctx context.Context, temp string, objects []string) error {
	with := map[string][]string{
		"static": {filepath.Join(k.libraries, "libcudart_static.a"), "-lrt", "-lpthread", "-ldl"},
		"shared": {"-Xlinker", filepath.Join(k.libraries, fmt.Sprintf("libcudart.so.%d", k.major)),
			"-Xlinker", "-rpath", "-Xlinker", k.libraries},
	}
	for name, runtime := range with {
		args := slices.Concat([]string{"-cudart", "none", "-o", filepath.Join(temp, name)}, objects,
			runtime)
		if err := output(k.nvcc(ctx, temp, args...)); err != nil {
			return err
		}
	}
	return nil
}

// samplePrograms are the samples with each toolkit and both ways to link its runtime.
func samplePrograms(l *ladder) ([]program, error) {
	all, err := toolkits(l.ctx)
	if err != nil {
		return nil, err
	}
	var programs []program
	for _, k := range all {
		dir, err := k.compile(l.ctx)
		if err != nil {
			return nil, err
		}
		for _, kind := range []string{"static", "shared"} {
			binary := filepath.Join(dir, kind)
			names, err := exec.CommandContext(l.ctx, binary).Output()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", binary, err)
			}
			for _, name := range strings.Fields(string(names)) {
				programs = append(programs, program{rung: 1, name: name, version: k.version,
					artefact: fmt.Sprintf("CUDA %d.%d, %s runtime", k.version/1000,
						k.version%1000/10, kind),
					argv: []string{binary, name}})
			}
		}
	}
	return programs, nil
}
