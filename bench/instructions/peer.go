package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
)

// The programs by their names in reports.
const (
	neon  = "neon"
	plain = "plain"
	peer  = "onnxruntime"
)

// The package that has ONNX Runtime's library for arm64. Only the library is used, and is what is
// pinned: no code of the package runs on this machine.
const (
	peerPackage = "onnxruntime-node@1.30.0"
	peerMember  = "package/bin/napi-v6/linux/arm64/libonnxruntime.so.1"
	peerHash    = "1f549d46250b005580b597f4164984aaf75b3bcb9f3aeb07c7f8a8fe60b23c76"
	packages    = "gcc-aarch64-linux-gnu libc6-dev-arm64-cross libstdc++6-arm64-cross"
	mostBytes   = 1 << 28 // of the library
)

//go:embed c/ort.c
var peerSource []byte

// prepare builds the programs: weir alone, or all three.
func prepare(e *emulator, alone bool) ([]program, error) {
	guest, err := buildGuest(e)
	if err != nil {
		return nil, err
	}
	programs := []program{{neon, guest, []string{"WEIR_ISA=neon"}}}
	if alone {
		return programs, nil
	}
	ort, library, err := preparePeer(e)
	if err != nil {
		return nil, err
	}
	return append(programs, program{plain, guest, []string{"WEIR_ISA=plain"}},
		program{peer, ort, []string{"QEMU_SET_ENV=LD_LIBRARY_PATH=" + library}}), nil
}

// buildGuest builds the program that runs weir.
func buildGuest(e *emulator) (path string, err error) {
	path = filepath.Join(e.folder, "guest")
	build := exec.Command("go", "build", "-o", path,
		"github.com/weirgpu/weir/bench/instructions/guest")
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0",
		"GOFLAGS=-trimpath") // and no flag that leaves the symbols out
	return path, said(build)
}

// preparePeer builds the program that drives ONNX Runtime, and returns the library's folder too.
func preparePeer(e *emulator) (ort, library string, err error) {
	cc, err := tool("aarch64-linux-gnu-gcc", packages)
	if err != nil {
		return "", "", err
	}
	out, err := exec.Command(cc, "-dumpfullversion").Output()
	if err != nil {
		return "", "", err
	}
	e.tools.Compiler = "gcc " + string(bytes.TrimSpace(out))
	e.tools.Peer = peerPackage
	if library, err = peerFolder(); err != nil {
		return "", "", err
	}
	ort = filepath.Join(e.folder, "ort")
	source := ort + ".c"
	if err := os.WriteFile(source, peerSource, 0o666); err != nil {
		return "", "", err
	}
	return ort, library, said(exec.Command(cc, "-O2", "-o", ort, source,
		filepath.Join(library, path.Base(peerMember))))
}

// peerFolder returns the folder with the library in the user's cache, and fetches it where it is
// not there. What is there is held against the hash each time.
func peerFolder() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, "weir", "onnxruntime-arm64-"+peerHash[:16])
	file := filepath.Join(folder, path.Base(peerMember))
	if data, err := os.ReadFile(file); err == nil {
		return folder, checkHash(data, file)
	} else if !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	data, err := fetch()
	if err != nil {
		return "", err
	}
	if err := checkHash(data, peerPackage); err != nil {
		return "", err
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return "", err
	}
	// Another process sees all of the file or none.
	if err := os.WriteFile(file+".part", data, 0o777); err != nil {
		return "", err
	}
	return folder, os.Rename(file+".part", file)
}

// checkHash refuses a library that is not the one which is pinned.
func checkHash(data []byte, where string) error {
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != peerHash {
		return fmt.Errorf("%s: the library has SHA-256 %x and not %s: remove it, or see what the "+
			"package is", where, sum, peerHash)
	}
	return nil
}

// fetch has npm bring the package and returns the library in it.
func fetch() ([]byte, error) {
	npm, err := tool("npm", "npm")
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "onnxruntime")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	c := exec.Command(npm, "pack", "--ignore-scripts", "--pack-destination", folder, peerPackage)
	if err := said(c); err != nil {
		return nil, fmt.Errorf("%w: %w", errRegistry, err)
	}
	found, err := filepath.Glob(filepath.Join(folder, "*.tgz"))
	if err != nil || len(found) != 1 {
		return nil, fmt.Errorf("npm pack %s has written %d archives: %w", peerPackage, len(found),
			err)
	}
	f, err := os.Open(found[0])
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return member(f, peerMember)
}

// member returns a file of a compressed archive.
func member(r io.Reader, name string) ([]byte, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	t := tar.NewReader(z)
	for {
		h, err := t.Next()
		if err != nil {
			return nil, fmt.Errorf("the archive has no %s: %w", name, err)
		}
		if h.Name != name {
			continue
		}
		if h.Size > mostBytes {
			return nil, fmt.Errorf("%s has %d bytes: at most %d", name, h.Size, mostBytes)
		}
		return io.ReadAll(t)
	}
}
