package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

//go:embed wheels/*.txt
var pins embed.FS

// errNoWheels is the kind of error when the wheels are not to be had here: another system, no pip,
// or a registry that does not answer.
var errNoWheels = errors.New("NVIDIA's wheels are not to be had")

// cache is the folder of what is fetched and compiled.
func cache() (string, error) {
	base, err := os.UserCacheDir()
	return filepath.Join(base, "weir", "userland"), err
}

// kept names the folder for what is made of the text, and tells whether it is there. Folders appear
// whole or not at all.
func kept(kind string, from ...[]byte) (string, bool, error) {
	base, err := cache()
	if err != nil {
		return "", false, err
	}
	h := sha256.New()
	for _, b := range from {
		h.Write(b)
		h.Write([]byte{0})
	}
	dir := filepath.Join(base, fmt.Sprintf("%s-%x", kind, h.Sum(nil)[:8]))
	_, err = os.Stat(dir)
	return dir, err == nil, nil
}

// fill makes a new folder whole by the function and gives it its name.
func fill(dir string, f func(temp string) error) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), "making-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if err := f(temp); err != nil {
		return err
	}
	if err := os.Rename(temp, dir); err != nil {
		if _, there := os.Stat(dir); there != nil {
			return err
		}
	}
	return nil
}

// fetch installs the wheels of a list into a folder of their own, without a Python that would use
// them.
func fetch(ctx context.Context, name string) (string, error) {
	text, err := pins.ReadFile("wheels/" + name + ".txt")
	if err != nil {
		return "", err
	}
	dir, there, err := kept(name, text)
	if err != nil || there {
		return dir, err
	}
	return dir, fill(dir, func(temp string) error {
		return install(ctx, "python3", text, "--target", temp)
	})
}

// environment is a virtual environment with the wheels of a list, made for the Python of the host.
func environment(ctx context.Context, name string) (python string, err error) {
	text, err := pins.ReadFile("wheels/" + name + ".txt")
	if err != nil {
		return "", err
	}
	version, err := exec.CommandContext(ctx, "python3", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%w: python3: %w", errNoWheels, err)
	}
	dir, there, err := kept(name, text, version)
	python = filepath.Join(dir, "bin", "python")
	if err != nil || there {
		return python, err
	}
	return python, fill(dir, func(temp string) error {
		out, err := exec.CommandContext(ctx, "python3", "-m", "venv", temp).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: python3 -m venv: %w: %s", errNoWheels, err, out)
		}
		return install(ctx, filepath.Join(temp, "bin", "python"), text)
	})
}

// install runs pip on a list. A wheel that is not what it was is an error of its own; whatever else
// keeps pip from its work is errNoWheels.
func install(ctx context.Context, python string, list []byte, args ...string) error {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return fmt.Errorf("%w for %s on %s: the list is of linux on amd64", errNoWheels,
			runtime.GOOS, runtime.GOARCH)
	}
	file, err := os.CreateTemp("", "weir-wheels-*.txt")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if _, err := file.Write(list); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, python, append([]string{"-m", "pip", "install", "--quiet",
		"--disable-pip-version-check", "--retries", "1", "--timeout", "20", "--no-deps",
		"--require-hashes", "--only-binary", ":all:", "--requirement", file.Name()}, args...)...)
	out, err := cmd.CombinedOutput()
	if bytes.Contains(out, []byte("DO NOT MATCH THE HASHES")) {
		return fmt.Errorf("a wheel is not the one of the list: %s", out)
	}
	if err != nil {
		return fmt.Errorf("%w: pip: %w: %s", errNoWheels, err, lastLine(string(out)))
	}
	return nil
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
