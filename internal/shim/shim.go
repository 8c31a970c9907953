package shim

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

const generated = "src/generated.zip"

// Library is the file name of the compiled library.
const Library = "libweir-cuda.so"

// ErrNotBuilt means that this program carries no source of the library (build tag nogpu).
var ErrNotBuilt = errors.New("this weir was built with the tag nogpu")

// ErrNoCompiler means that the host has no C compiler to build the library with.
var ErrNoCompiler = errors.New("no C compiler")

// flags are those that the library is always built with. -z nodelete keeps it mapped, with its
// watcher thread, when a program closes what it takes for the driver.
var flags = []string{"-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall",
	"-Wextra", "-Wl,-z,nodelete", "-Wl,-z,now"}

// Digest names the source and the flags: the SHA-256, in hexadecimal, that the cache is keyed by.
func Digest() string {
	h := sha256.New()
	fmt.Fprintln(h, runtime.GOARCH, strings.Join(flags, " "))
	for _, name := range sourceNames() {
		text, err := sources.ReadFile(name)
		if err != nil { // what is embedded is there
			panic(err)
		}
		fmt.Fprintf(h, "%s %d\n", name, len(text))
		h.Write(text)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func sourceNames() []string {
	var names []string
	_ = fs.WalkDir(sources, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, p)
		}
		return err
	})
	slices.Sort(names)
	return names
}

// Build returns the path of the compiled library, cache/weir/shim/<digest>/libweir-cuda.so, which
// it compiles first if it is not there, or takes out of the binary where that carries it (build tag
// weirshim). Cache is the user's cache folder, made if need be. CC is the compiler; "" takes $CC,
// or the first of cc, gcc and clang that there is. The error is [ErrNoCompiler] if there is none,
// holds the compiler's output if it fails, and is [ErrNotBuilt] where there is nothing to compile.
func Build(ctx context.Context, cache, cc string) (string, error) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		return "", fmt.Errorf("shim: programs can be metered on Linux on amd64 and arm64 only, "+
			"not on %s on %s", runtime.GOOS, runtime.GOARCH)
	}
	if len(carried) > 0 {
		return unpack(cache, carried)
	}
	if !Built {
		return "", fmt.Errorf("shim: programs cannot be metered: %w: build it without, or give a "+
			"compiled library with --shim", ErrNotBuilt)
	}
	dir := filepath.Join(cache, "weir", "shim", Digest())
	path := filepath.Join(dir, Library)
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		return path, nil
	}
	compiler, err := findCompiler(cc)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("shim: cache: %w", err)
	}
	if err := compile(ctx, compiler, path); err != nil {
		return "", err
	}
	return path, nil
}

// unpack puts a library into the cache, under the name of what is in it, unless it is there.
func unpack(cache string, library []byte) (string, error) {
	sum := sha256.Sum256(library)
	dir := filepath.Join(cache, "weir", "shim", hex.EncodeToString(sum[:]))
	path := filepath.Join(dir, Library)
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() &&
		info.Size() == int64(len(library)) {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("shim: cache: %w", err)
	}
	temp, err := os.CreateTemp(dir, "unpack-")
	if err != nil {
		return "", fmt.Errorf("shim: cache: %w", err)
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(library)
	if err = errors.Join(err, temp.Chmod(0o755), temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return "", fmt.Errorf("shim: cache: %w", err)
	}
	return path, nil
}

func findCompiler(cc string) (string, error) {
	candidates := []string{"cc", "gcc", "clang"}
	if cc == "" {
		cc = os.Getenv("CC")
	}
	if cc != "" {
		candidates = []string{cc}
	}
	for _, c := range candidates {
		if p, err := exec.LookPath(c); err == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("shim: %w (looked for %s): install one (for example the package gcc), "+
		"or give a compiled library with --shim",
		ErrNoCompiler, strings.Join(candidates, ", "))
}

// unfold writes the source into a folder.
func unfold(dir string) error {
	if err := os.CopyFS(dir, sources); err != nil {
		return err
	}
	packed, err := sources.ReadFile(generated)
	if err != nil {
		return err
	}
	derived, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		return err
	}
	return os.CopyFS(filepath.Join(dir, "src"), derived)
}

// compile builds in a folder of its own and moves the result into place, so that nobody ever sees
// half of it and a library in use is never written to.
func compile(ctx context.Context, compiler, path string) error {
	tmp, err := os.MkdirTemp(filepath.Dir(path), "build-")
	if err != nil {
		return fmt.Errorf("shim: cache: %w", err)
	}
	defer os.RemoveAll(tmp)
	if err := unfold(tmp); err != nil {
		return fmt.Errorf("shim: cache: %w", err)
	}
	args := append(slices.Clone(flags), "-I", tmp, "-o", filepath.Join(tmp, Library))
	for _, name := range sourceNames() {
		if strings.HasSuffix(name, ".c") {
			args = append(args, filepath.Join(tmp, name))
		}
	}
	cmd := exec.CommandContext(ctx, compiler, append(args, "-lpthread", "-ldl")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return fmt.Errorf("shim: %s: %w\n%s", compiler, err, strings.TrimSpace(string(out)))
	}
	if err := os.Rename(filepath.Join(tmp, Library), path); err != nil {
		return fmt.Errorf("shim: cache: %w", err)
	}
	return nil
}
