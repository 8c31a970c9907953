package agent

import (
	"bufio"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNoPreload: a library cannot be put before the driver in this program.
var ErrNoPreload = errors.New("cannot be metered")

// interpreters bounds a chain of scripts that name scripts as interpreters; Linux allows four
// (execve(2)).
const interpreters = 4

// CheckExecutable reports, as [ErrNoPreload], why the dynamic loader would not preload a library
// into the program at path: because it is linked statically, of another architecture than this one,
// or runs with more rights than its user has. For a script, the interpreter is checked.
func CheckExecutable(path string) error {
	for range interpreters {
		f, err := os.Open(path)
		if err != nil {
			// A program that can be run and not read is run by the loader like others.
			if errors.Is(err, fs.ErrPermission) {
				return nil
			}
			return err
		}
		next, err := checkFile(path, f)
		_ = f.Close()
		if err != nil || next == "" {
			return err
		}
		path = next
	}
	return nil
}

// checkFile checks one file, and returns the interpreter of a script.
func checkFile(path string, f *os.File) (string, error) {
	fi, err := f.Stat()
	if err != nil {
		return "", err
	}
	if fi.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
		return "", fmt.Errorf(
			"%s runs with another user's rights, and the loader then preloads nothing: run weir "+
				"exec inside of it: %w",
			path,
			ErrNoPreload,
		)
	}
	line, err := bufio.NewReader(io.LimitReader(f, 4096)).ReadString('\n')
	if rest, ok := strings.CutPrefix(line, "#!"); ok {
		return interpreter(rest)
	}
	if !strings.HasPrefix(line, elf.ELFMAG) {
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		return "", nil // not ours to judge: execve says what is wrong with it
	}
	return "", checkELF(path, f)
}

// interpreter returns the program that runs a script, by its first line after "#!". That env is
// told to run is the interpreter, not env.
func interpreter(line string) (string, error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return "", nil
	}
	if filepath.Base(words[0]) == "env" {
		for _, w := range words[1:] {
			if !strings.HasPrefix(w, "-") && !strings.Contains(w, "=") {
				if p, err := exec.LookPath(w); err == nil {
					return p, nil
				}
				return "", nil
			}
		}
	}
	return words[0], nil
}

func checkELF(path string, f *os.File) error {
	e, err := elf.NewFile(f)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if own, err := elf.Open("/proc/self/exe"); err == nil {
		machine := own.Machine
		_ = own.Close()
		if e.Machine != machine {
			return fmt.Errorf("%s is for %v, and the library for %v: %w", path, e.Machine, machine,
				ErrNoPreload)
		}
	}
	for _, p := range e.Progs {
		if p.Type == elf.PT_INTERP {
			return nil
		}
	}
	return fmt.Errorf(
		"%s is a static executable: nothing can be put before the driver in it: link it "+
			"dynamically, or give it a GPU or a MIG instance of its own: %w",
		path,
		ErrNoPreload,
	)
}
