// Package stage builds weir and the simulated driver and gives them a GPU of their own, for
// commands that measure programs under weir exec without hardware.
//
// Meet first: [Stage].
//
// Concurrency: stages are independent of each other, also those of several processes.
//
// What it refuses: to run without the go command, or a C compiler
// ([fakecuda.ErrNoCompiler]).
package stage

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/weirgpu/weir/internal/shim/fakecuda"
)

// Stage is the command weir, built from the source of the running program, and the simulated
// driver, with a runtime folder and a device that nobody else uses.
type Stage struct {
	Dir    string   // the runtime folder
	Weir   string   // the command
	Driver string   // folder of the driver, in the user's cache; see [fakecuda.Build]
	Env    []string // the caller's, with what has programs use all this, and the settings
}

// New builds a stage. Settings of the simulated device go by its variables, as in
// "WEIR_FAKE_PROFILE=hardware". The error carries what the go command or the C compiler said.
func New(ctx context.Context, settings ...string) (*Stage, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "weir-") // short, as the path of a socket is
	if err != nil {
		return nil, err
	}
	s := &Stage{Dir: dir, Weir: filepath.Join(dir, "weir")}
	if s.Driver, err = fakecuda.Build(ctx, filepath.Join(cache, "weir"), ""); err == nil {
		err = s.build(ctx)
	}
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	s.Env = append(os.Environ(), "WEIR_RUNTIME_DIR="+dir,
		"WEIR_FAKE_DIR="+filepath.Join(dir, "gpu"), "LD_PRELOAD=")
	s.Env = append(s.Env, settings...)
	return s, nil
}

func (s *Stage) build(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "go", "build", "-o", s.Weir,
		"github.com/weirgpu/weir/cmd/weir").CombinedOutput()
	if err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	return nil
}

// Close removes the runtime folder, with the command and the device. Whoever has started an agent
// ends it before.
func (s *Stage) Close() error { return os.RemoveAll(s.Dir) }
