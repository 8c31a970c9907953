package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/weirgpu/weir/internal/shim"
	"github.com/weirgpu/weir/internal/shim/fakecuda"
	"github.com/weirgpu/weir/kube/e2e/cluster"
)

// Names of the images.
const (
	nodeImage  = "weir-node:e2e"
	podImage   = "weir-e2e-pod:1"
	pauseImage = "weir-e2e-pause:1"
)

// parts are the files that images are made of.
type parts struct {
	weir, node, shim, fake, pod string
}

// build compiles weir, the driver, the library, the fake driver and what runs in pods.
func build(ctx context.Context, source, dir string) (p parts, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return p, err
	}
	p.weir, p.node = filepath.Join(dir, "weir"), filepath.Join(dir, "weir-node")
	p.pod = filepath.Join(dir, "pod")
	if p.shim, err = shim.Build(ctx, cache, ""); err != nil {
		return p, err
	}
	if p.fake, err = fakecuda.Build(ctx, filepath.Join(cache, "weir"), ""); err != nil {
		return p, err
	}
	return p, errors.Join(
		run(ctx, source, "go", "build", "-o", p.weir, "./cmd/weir"),
		run(ctx, filepath.Join(source, "kube", "node"), "go", "build", "-o", p.node, "."),
		run(ctx, source, "cc", "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror",
			"-Iinternal/shim/fakecuda", "kube/e2e/testdata/pod.c", "-o", p.pod, "-ldl"))
}

func run(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// images are those of the node and of the pods, with this machine's C library in them.
func (p *parts) images() ([]cluster.Image, error) {
	cuda := filepath.Join(p.fake, "libcuda.so.1")
	nvml := filepath.Join(p.fake, "libnvidia-ml.so.1")
	libraries, err := needed(p.weir, p.node, p.shim, p.pod, cuda, nvml)
	if err != nil {
		return nil, err
	}
	node := map[string]string{"/weir": p.weir, "/weir-node": p.node, "/libweir.so": p.shim,
		"/fake/libcuda.so.1": cuda, "/fake/libnvidia-ml.so.1": nvml}
	pod := map[string]string{"/pod": p.pod}
	for _, l := range libraries {
		node[l], pod[l] = l, l
	}
	return []cluster.Image{
		{Name: nodeImage, Files: node, Entrypoint: []string{"/weir-node"}},
		{Name: podImage, Files: pod, Entrypoint: []string{"/pod"}},
		{Name: pauseImage, Files: pod, Entrypoint: []string{"/pod", "pause"}}}, nil
}

// needed are the libraries that the loader brings in for programs and libraries.
func needed(files ...string) ([]string, error) {
	var all []string
	for _, f := range files {
		out, err := exec.Command("ldd", f).CombinedOutput()
		if bytes.Contains(out, []byte("not a dynamic executable")) ||
			bytes.Contains(out, []byte("statically linked")) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("ldd %s: %w: %s", f, err, out)
		}
		for field := range strings.FieldsSeq(string(out)) {
			if strings.HasPrefix(field, "/") && !strings.HasSuffix(field, ":") {
				all = append(all, field)
			}
		}
	}
	return all, nil
}
