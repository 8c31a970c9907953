package fakecuda

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Name is what every device of the stand-in calls itself.
const Name = "weir fake GPU"

// Control is the program among those of Build that starts the stand-in for the control daemon of
// NVIDIA's Multi-Process Service and speaks to it.
const Control = "nvidia-cuda-mps-control"

// ErrNotBuilt means that this program carries no source of the driver (build tag nogpu).
var ErrNotBuilt = errors.New("this weir was built with the tag nogpu")

// ErrNoCompiler is the kind of error when the host has no C compiler.
var ErrNoCompiler = errors.New("no C compiler")

var (
	common  = []string{"-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-pthread"}
	library = []string{"-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-z,nodelete",
		"-Wl,-Bsymbolic"}
	// folders, with what their programs need
	programs = map[string][]string{"example": nil, "stress": nil, "smi": files("model"),
		"mps": files("model")}
)

// Build compiles the libraries and the programs into a folder below cacheDir and returns its path:
// libcuda.so.1 and libnvidia-ml.so.1 lie in it, the programs, named as their sources without .c, in
// its folder bin. The folder is named by a hash of the sources, the compiler's name and the flags;
// it appears whole or not at all, and one that is there is not built again.
//
// cc is the compiler; "" stands for $CC, then cc, gcc or clang on the path. Flags are added to each
// call of it, after Build's own. The error is [ErrNoCompiler] when there is none, carries the
// compiler's output when it fails, and is [ErrNotBuilt] where there is nothing to compile.
func Build(ctx context.Context, cacheDir, cc string, flags ...string) (string, error) {
	if runtime.GOOS != "linux" {
		return "", fmt.Errorf("fake CUDA driver: needs Linux, not %s", runtime.GOOS)
	}
	if !built {
		return "", fmt.Errorf("fake CUDA driver: %w: build it without", ErrNotBuilt)
	}
	cc, err := compiler(cc)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cacheDir, "fakecuda-"+key(cc, flags))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(cacheDir, 0o700); err != nil {
		return "", fmt.Errorf("fake CUDA driver: %w", err)
	}
	temp, err := os.MkdirTemp(cacheDir, "building-")
	if err != nil {
		return "", fmt.Errorf("fake CUDA driver: %w", err)
	}
	defer os.RemoveAll(temp)
	if err := build(ctx, temp, cc, flags); err != nil {
		return "", err
	}
	if err := os.Rename(temp, dir); err != nil {
		if _, there := os.Stat(dir); there != nil {
			return "", fmt.Errorf("fake CUDA driver: %w", err)
		}
	}
	return dir, nil
}

func compiler(cc string) (string, error) {
	candidates := []string{cc}
	if cc == "" {
		candidates = []string{os.Getenv("CC"), "cc", "gcc", "clang"}
	}
	for _, c := range candidates {
		if c == "" {
			continue
		}
		if found, err := exec.LookPath(c); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("fake CUDA driver: %w (looked for %s): install gcc or clang, or set CC",
		ErrNoCompiler, strings.Join(slices.DeleteFunc(candidates, func(c string) bool {
			return c == ""
		}), ", "))
}

// key hashes all that the result depends on. Embedded files are read in a fixed order and cannot
// fail.
func key(cc string, flags []string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q\n", cc, common, library, flags)
	_ = fs.WalkDir(sources, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			text, _ := sources.ReadFile(name)
			fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
		}
		return nil
	})
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// build fills the folder: the sources below src, then what is made of them.
func build(ctx context.Context, dir, cc string, flags []string) error {
	src := filepath.Join(dir, "src")
	if err := os.CopyFS(src, sources); err != nil {
		return fmt.Errorf("fake CUDA driver: %w", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		return fmt.Errorf("fake CUDA driver: %w", err)
	}
	run := func(args ...string) error {
		cmd := exec.CommandContext(ctx, cc, slices.Concat(common, flags, args)...)
		cmd.Dir = src
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("fake CUDA driver: %s %s: %w\n%s", cc, strings.Join(args, " "), err,
				out)
		}
		return nil
	}
	var all [][]string
	for name, folder := range map[string]string{"libcuda.so.1": "driver",
		"libnvidia-ml.so.1": "nvml"} {
		args := append(slices.Clone(library), "-Wl,-soname,"+name, "-o", filepath.Join(dir, name))
		all = append(all, append(args, slices.Concat(files("model"), files(folder))...))
	}
	for folder, with := range programs {
		for _, file := range files(folder) {
			bin := filepath.Join(dir, "bin", strings.TrimSuffix(path.Base(file), ".c"))
			all = append(all, slices.Concat([]string{"-o", bin, file}, with,
				[]string{"-ldl", "-lm"}))
		}
	}
	return abreast(all, run)
}

// abreast calls run with each list, as many at a time as there are processors, and returns all
// errors.
func abreast(all [][]string, run func(args ...string) error) error {
	errs := make([]error, len(all))
	places := make(chan struct{}, runtime.NumCPU())
	var wg sync.WaitGroup
	for i, args := range all {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			errs[i] = run(args...)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func files(folder string) []string {
	names, _ := fs.Glob(sources, folder+"/*.c")
	return names
}
