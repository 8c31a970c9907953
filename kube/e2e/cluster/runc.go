package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Runc is the first argument with which a program that uses this package is called in runc's place;
// it is to call [AsRunc] with those that follow.
const Runc = "as-runc"

// AsRunc takes the profile of system calls out of the bundle that runc is about to run, as one that
// was built without libseccomp refuses it, and becomes runc: its path is the first of the
// arguments.
func AsRunc(args []string) error {
	if len(args) == 0 {
		return errors.New("as-runc: want the path of runc")
	}
	if i := slices.Index(args, "--bundle"); i >= 0 && i+1 < len(args) {
		if err := withoutProfile(filepath.Join(args[i+1], "config.json")); err != nil {
			return fmt.Errorf("as-runc: %w", err)
		}
	}
	return syscall.Exec(args[0], args, os.Environ())
}

// withoutProfile rewrites a runtime's configuration; all else in it stays as it is.
func withoutProfile(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var config map[string]json.RawMessage
	if err := json.Unmarshal(text, &config); err != nil {
		return err
	}
	var linux map[string]json.RawMessage
	if err := json.Unmarshal(config["linux"], &linux); err != nil {
		return err
	}
	delete(linux, "seccomp")
	if config["linux"], err = json.Marshal(linux); err != nil {
		return err
	}
	if text, err = json.Marshal(config); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}
