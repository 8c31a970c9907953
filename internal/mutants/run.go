package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// Limits of a run of one package's tests.
const (
	memoryKiB  = 12 << 20 // address space; Go reserves more than it uses
	cpuFactor  = 6        // processor time, of what the tests take without a change
	cpuExtra   = 10       // s beside that
	wallFactor = 20       // time for all else, which other work on the machine may stretch
	wallExtra  = 60 * time.Second
)

// suite is the built tests of a package.
type suite struct {
	pkg, binary, dir string
	cpu, wall        time.Duration // of a run without a change
}

// run runs the tests with a mutant, 0 for none, and returns the output if they fail.
func (s *suite) run(ctx context.Context, mutant int, home string) (output []byte, failed bool) {
	wall := wallFactor*s.wall + wallExtra
	cpu := cpuFactor*int(s.cpu.Seconds()) + cpuExtra
	if mutant == 0 {
		wall, cpu = 10*time.Minute, 600
	}
	limits := fmt.Sprintf("ulimit -v %d && ulimit -t %d && exec \"$@\"", memoryKiB, cpu)
	c := exec.CommandContext(ctx, "sh", "-c", limits, "sh", s.binary, "-test.short",
		"-test.failfast", "-test.timeout", wall.String())
	c.Dir = s.dir
	c.Env = append(os.Environ(), variable+"="+strconv.Itoa(mutant), "WEIR_ONNX_TESTDATA="+home,
		"HOME="+home, "XDG_CACHE_HOME="+home, "TMPDIR="+home, "GOMAXPROCS=2")
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	began := time.Now()
	err := c.Run()
	if mutant == 0 {
		s.wall = time.Since(began)
		if c.ProcessState != nil {
			s.cpu = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
		}
	}
	return out.Bytes(), err != nil
}

var failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^(panic: test timed out)|^(panic: .*)|` +
	`^(fatal error: .*)`)

// by says in few words what failed in a test's output.
func by(output []byte) string {
	m := failure.FindSubmatch(output)
	if m == nil {
		return "a limit of time or memory"
	}
	return string(bytes.Join(m[1:], nil))
}

// Outcome is what became of a mutant.
type Outcome struct {
	*Mutant
	Target   string  `json:"target"`
	Name     string  `json:"id"`
	Noticed  bool    `json:"noticed"`
	By       string  `json:"by,omitempty"` // package and test
	Seconds  float64 `json:"seconds"`
	Harmless string  `json:"harmless,omitempty"` // why a survivor may live
}

// judge runs suites in turn until one notices a mutant.
func judge(ctx context.Context, m *Mutant, suites []*suite, dir string) (*Outcome, error) {
	began := time.Now()
	o := &Outcome{Mutant: m, Name: m.ID()}
	for _, s := range suites {
		home, err := os.MkdirTemp(dir, "home-")
		if err != nil {
			return nil, err
		}
		out, failed := s.run(ctx, m.number, home)
		if err := errors.Join(os.RemoveAll(home), ctx.Err()); err != nil {
			return nil, err
		}
		if failed {
			o.Noticed, o.By = true, filepath.ToSlash(s.pkg)+": "+by(out)
			break
		}
	}
	o.Seconds = time.Since(began).Seconds()
	return o, nil
}

// prove runs the suites without a change, which must pass.
func prove(ctx context.Context, suites map[string]*suite, dir string) error {
	for name, s := range suites {
		if out, failed := s.run(ctx, 0, dir); failed {
			return fmt.Errorf("the tests of %q fail without a change: %s\n%s", name, by(out), out)
		}
	}
	return nil
}
