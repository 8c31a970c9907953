package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weirgpu/weir/internal/shim/stage"
)

const (
	deviceBytes = 16 << 30 // of the simulated device
	capBytes    = 8 << 30  // of programs under weir
	// A program that takes longer than this is stuck: most take a tenth of a second, the compilers
	// of rung 2 some seconds, and vLLM half a minute to import what it needs.
	patience = 5 * time.Minute
)

// profiles of the simulated device (internal/shim/fakecuda): one where every number is exact, and
// one where the driver costs and rounds as a real one is believed to.
var profiles = []string{"plain", "hardware"}

// program is one that runs both ways.
type program struct {
	rung, version  int // version of CUDA that the driver claims
	name, artefact string
	argv           []string
	env            []string // beside the ladder's
	exit           int      // that it must end with; 128 and the number of a signal
}

// rungs are what the command runs; those that need several GB are run when they are named.
var rungs = []struct {
	number   int
	named    bool
	programs func(*ladder) ([]program, error)
}{{1, false, samplePrograms}, {2, false, pythonPrograms}, {3, true, torchPrograms},
	{4, true, startPrograms}}

// outcome is what a program did.
type outcome struct {
	Exit   int    `json:"exit"`
	Output string `json:"output"`
	Talk   string `json:"talk,omitempty"` // on standard error
}

// result is a program's two outcomes, and how they compare.
type result struct {
	Rung     int     `json:"rung"`
	Artefact string  `json:"artefact"`
	Program  string  `json:"program"`
	Profile  string  `json:"profile"` // of the simulated device
	Exit     int     `json:"exit"`    // that both must have
	Without  outcome `json:"without"`
	Under    outcome `json:"under"`
	// Differs are the first lines that the two do not have in common, and sizes that are not the
	// cap's.
	Differs []string `json:"differs,omitempty"`
	Left    uint64   `json:"left"` // bytes that are still held when both have ended
	// Refused are the tables, slots and attributes that were asked for and that the simulated
	// driver has not; Absent are the names of calls.
	Refused []string `json:"refused,omitempty"`
	Absent  []string `json:"absent,omitempty"`
}

func (r result) ok() bool {
	return r.Without.Exit == r.Exit && r.Under.Exit == r.Exit && len(r.Differs) == 0 && r.Left == 0
}

// ladder is the command weir and the simulated driver, built from this source, with a runtime
// folder and a device of their own.
type ladder struct {
	ctx          context.Context
	profile      string // of the device
	dir          string
	weir, driver string
	env          []string
}

// newLadder takes a profile of the simulated device: "plain" or "hardware"
// (internal/shim/fakecuda).
func newLadder(ctx context.Context, profile string) (*ladder, error) {
	s, err := stage.New(ctx, "WEIR_FAKE_PROFILE="+profile, "WEIR_FAKE_MEMORY="+gib(deviceBytes),
		"CUPY_CACHE_IN_MEMORY=1")
	if err != nil {
		return nil, err
	}
	return &ladder{ctx: ctx, profile: profile, dir: s.Dir, weir: s.Weir, driver: s.Driver,
		env: s.Env}, nil
}

// gib is a size as weir and the simulated driver both read it.
func gib(bytes int64) string { return fmt.Sprintf("%dGiB", bytes>>30) }

// close ends the agent, which the first program under weir has started, and removes the folder.
func (l *ladder) close() {
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		to, err := os.Readlink(link)
		var pid int
		if err != nil || to != filepath.Join(l.dir, "agent.lock") {
			continue
		}
		if _, err := fmt.Sscanf(link, "/proc/%d/", &pid); err == nil {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	}
	_ = os.RemoveAll(l.dir)
}

// run runs a program once.
func (l *ladder) run(p program, under bool) (outcome, error) {
	ctx, cancel := context.WithTimeout(l.ctx, patience)
	defer cancel()
	argv := p.argv
	env := append(slices.Concat(l.env, p.env), "WEIR_FAKE_CUDA_VERSION="+strconv.Itoa(p.version),
		"WEIR_FAKE_MISSING="+filepath.Join(l.dir, "missing"))
	if under {
		argv = append([]string{l.weir, "exec", "--fake-gpu", "--memory", gib(capBytes),
			"--"}, argv...)
	} else {
		env = append(env, "LD_LIBRARY_PATH="+l.driver)
	}
	var out, talk bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = env, &out, &talk, time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && ctx.Err() == nil {
		return outcome{}, err
	}
	if ctx.Err() != nil {
		fmt.Fprintf(&talk, "\nended after %s", patience)
	}
	return outcome{exitCode(cmd.ProcessState), out.String(), strings.TrimSpace(talk.String())},
		l.ctx.Err()
}

// exitCode is as a shell and weir exec have it.
func exitCode(s *os.ProcessState) int {
	if status, ok := s.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return s.ExitCode()
}

// both runs a program without weir and under it.
func (l *ladder) both(p program) (result, error) {
	r := result{Rung: p.rung, Artefact: p.artefact, Program: p.name, Profile: l.profile,
		Exit: p.exit}
	missing := filepath.Join(l.dir, "missing")
	_ = os.Remove(missing)
	var err error
	if r.Without, err = l.run(p, false); err != nil {
		return r, err
	}
	left, err := l.settled()
	if err != nil {
		return r, err
	}
	if r.Under, err = l.run(p, true); err != nil {
		return r, err
	}
	if r.Left, err = l.settled(); err != nil {
		return r, err
	}
	r.Left += left
	r.Differs = compare(r.Without.Output, r.Under.Output)
	text, err := os.ReadFile(missing)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return r, err
	}
	r.Refused, r.Absent = asked(string(text))
	return r, nil
}

// settled is the memory that the device's ledger still shows when a process's end has had its time:
// in the profile "hardware" memory is free some milliseconds later.
func (l *ladder) settled() (uint64, error) {
	for end := time.Now().Add(5 * time.Second); ; {
		used, err := l.held()
		if err != nil || used == 0 || time.Now().After(end) {
			return used, err
		}
	}
}

// held is what the ledger shows.
func (l *ladder) held() (uint64, error) {
	cmd := exec.CommandContext(l.ctx, filepath.Join(l.driver, "bin", "smi"))
	cmd.Env = append(slices.Clone(l.env), "LD_LIBRARY_PATH="+l.driver)
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("smi: %w: %s", err, out)
	}
	var ledger struct{ Used uint64 }
	err = json.Unmarshal([]byte(lastLine(string(out))), &ledger)
	return ledger.Used, err
}

// compare gives the lines that differ, at most a few. A line of memory must show the device without
// weir, and the cap under it.
func compare(without, under string) []string {
	a, b := strings.Split(without, "\n"), strings.Split(under, "\n")
	var differs []string
	for i := range max(len(a), len(b)) {
		var x, y string
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		same := x == y
		if strings.HasPrefix(x, "memory ") {
			same = within(x, deviceBytes) && within(y, capBytes)
		}
		if !same {
			differs = append(differs, fmt.Sprintf("line %d: %q, under weir %q", i+1, x, y))
		}
	}
	return differs[:min(len(differs), 5)]
}

// within tells whether a line is a size of memory of a device that has so much, and as much of it
// as its name says.
func within(line string, bytes uint64) bool {
	f := strings.Fields(line)
	if len(f) != 3 || f[0] != "memory" {
		return false
	}
	n, err := strconv.ParseUint(f[2], 10, 64)
	if err != nil || n > bytes {
		return false
	}
	switch f[1] {
	case "total":
		return n == bytes
	case "most": // that could be allocated, in large pieces and beside a context
		return n >= bytes/10*9
	case "threequarters":
		return n == bytes/4*3
	}
	return true
}

// asked reads what was asked for in vain, each once: lines of a kind, a name and a number.
func asked(text string) (refused, absent []string) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		if f[0] == "call" {
			absent = append(absent, f[1])
			continue
		}
		refused = append(refused, strings.TrimSuffix(strings.Join(f, " "), " 0"))
	}
	slices.Sort(refused)
	slices.Sort(absent)
	return slices.Compact(refused), slices.Compact(absent)
}
