package main

import (
	"archive/zip"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// releases are the packages with the headers of the oldest and newest CUDA of each major version
// that the table must cover. The last of each names no version: it is the newest there is.
var releases = []string{"nvidia-cuda-runtime-cu12==12.0.107", "nvidia-cuda-runtime-cu12",
	"nvidia-cuda-runtime==13.0.48", "nvidia-cuda-runtime"}

// download fetches one package with pip, which knows the host's registry, and unpacks its CUDA
// headers.
func download(ctx context.Context, dir, release string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "python3", "-m", "pip", "download", "-q", "--no-deps",
		"--only-binary=:all:", "--timeout", "10", "--retries", "1",
		"--platform", "manylinux2014_x86_64", "--platform", "manylinux_2_17_x86_64", "--platform",
		"manylinux1_x86_64", "-d", dir, release)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("pip: %w: %s", err, lastLine(out))
	}
	wheels, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(wheels) != 1 {
		return "", fmt.Errorf("pip left %d wheels: %w", len(wheels), err)
	}
	z, err := zip.OpenReader(wheels[0])
	if err != nil {
		return "", err
	}
	defer z.Close()
	for _, f := range z.File {
		if name := path.Base(f.Name); path.Base(path.Dir(f.Name)) == "include" &&
			strings.HasPrefix(name, "cuda") {
			if err := unpack(f, filepath.Join(dir, name)); err != nil {
				return "", err
			}
		}
	}
	return dir, nil
}

func unpack(f *zip.File, to string) error {
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, io.LimitReader(r, 16<<20)); err != nil {
		_ = w.Close()
		return err
	}
	return w.Close()
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}
