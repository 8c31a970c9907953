package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of a run of one package's tests.
const (
	memoryKiB  = 12 << 20 // address space; Go reserves more than it uses
	cpuFactor  = 6        // processor time, of what the tests take without a change
	cpuExtra   = 5        // s beside that
	wallFactor = 20       // time for all else, which other work on the machine may stretch
	wallExtra  = 60 * time.Second
)

// suite is the built tests of a package.
type suite struct {
	pkg, binary, dir string
	home             string       // a folder for what a run writes
	learn            func() error // observe, once
	tests            []*test      // by processor time
}

// test is what a test does without a change.
type test struct {
	name      string
	reaches   map[int]bool // functions, by number
	cpu, wall time.Duration
}

// batch is tests that run in one process.
type batch []*test

func (b batch) pattern() string {
	names := make([]string, len(b))
	for i, t := range b {
		names[i] = t.name
	}
	return "^(" + strings.Join(names, "|") + ")$"
}

// batches cuts the tests that reach a function into groups, cheap ones first: most mutants are
// noticed by many tests, and a process runs its tests in the order of the files.
func (s *suite) batches(function int) (list []batch) {
	var b batch
	var sum time.Duration
	limit := time.Second / 4
	for _, t := range s.tests {
		if !t.reaches[function] {
			continue
		}
		if sum += t.cpu; len(b) > 0 && sum > limit {
			list, b, sum, limit = append(list, b), nil, t.cpu, 4*limit
		}
		b = append(b, t)
	}
	if len(b) > 0 {
		list = append(list, b)
	}
	return list
}

// readReached takes the numbers of the functions that a test has reached; no file stands for none.
func (t *test) readReached(file string) error {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, number := range strings.Fields(string(text)) {
		n, err := strconv.Atoi(number)
		if err != nil {
			return err
		}
		t.reaches[n] = true
	}
	return nil
}

// observe runs each test by itself without a change and learns what functions it reaches. A test
// that reaches one must pass.
func (s *suite) observe(ctx context.Context) error {
	c := exec.CommandContext(ctx, s.binary, "-test.list", "^(Test|Example|Fuzz)")
	c.Dir = s.dir
	out, err := c.Output()
	if err != nil {
		return fmt.Errorf("list the tests of %q: %w", s.pkg, err)
	}
	for _, name := range strings.Fields(string(out)) {
		t, err := s.observed(ctx, name)
		if err != nil {
			return err
		}
		s.tests = append(s.tests, t)
	}
	slices.SortFunc(s.tests, func(a, b *test) int { return cmp.Compare(a.cpu, b.cpu) })
	return nil
}

// observed runs one test without a change, and notes how long it takes and what it reaches.
func (s *suite) observed(ctx context.Context, name string) (*test, error) {
	t := &test{name: name, reaches: map[int]bool{}}
	file := filepath.Join(s.home, "reached")
	r, err := s.run(ctx, observe, batch{t}, file)
	if err != nil {
		return nil, err
	}
	t.cpu, t.wall = r.cpu, r.wall
	if err := t.readReached(file); err != nil {
		return nil, err
	}
	if r.failed && len(t.reaches) > 0 {
		return nil, fmt.Errorf("%s of %q fails without a change: %s\n%s", name, s.pkg,
			by(r.output), r.output)
	}
	return t, os.RemoveAll(file)
}

// result is what a run of tests comes to.
type result struct {
	output    []byte
	failed    bool
	cpu, wall time.Duration
}

// run runs tests with a mutant. With [observe] for it, the tests write what they reach to a file.
func (s *suite) run(ctx context.Context, mutant int, b batch, file string) (*result, error) {
	home, err := os.MkdirTemp(s.home, "home-")
	if err != nil {
		return nil, err
	}
	wall, cpu := wallExtra, time.Duration(0)
	for _, t := range b {
		wall += wallFactor * t.wall
		cpu += cpuFactor * t.cpu
	}
	seconds := int(cpu.Seconds()) + cpuExtra
	if mutant == observe {
		wall, seconds = 10*time.Minute, 600
	}
	limits := fmt.Sprintf("ulimit -v %d && ulimit -t %d && exec \"$@\"", memoryKiB, seconds)
	c := exec.CommandContext(ctx, "sh", "-c", limits, "sh", s.binary, "-test.short",
		"-test.failfast", "-test.timeout", wall.String(), "-test.run", b.pattern())
	c.Dir = s.dir
	c.Env = append(os.Environ(), variable+"="+strconv.Itoa(mutant), reached+"="+file,
		"WEIR_ONNX_TESTDATA=off", "HOME="+home, "XDG_CACHE_HOME="+home, "TMPDIR="+home,
		"GOMAXPROCS=2")
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	began := time.Now()
	r := &result{failed: c.Run() != nil, wall: time.Since(began), output: out.Bytes()}
	if c.ProcessState != nil {
		r.cpu = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	}
	return r, errors.Join(os.RemoveAll(home), ctx.Err())
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
	Reached  bool    `json:"reached"` // whether a test runs the function
	Noticed  bool    `json:"noticed"`
	By       string  `json:"by,omitempty"`       // package and test
	Seconds  float64 `json:"seconds"`            // processor time
	Harmless string  `json:"harmless,omitempty"` // why a survivor may live
}

// judge runs suites in turn until one notices a mutant, of each the tests that reach its function.
func judge(ctx context.Context, m *Mutant, suites []*suite) (*Outcome, error) {
	o := &Outcome{Mutant: m, Name: m.ID()}
	for _, s := range suites {
		if err := s.learn(); err != nil {
			return nil, err
		}
		for _, b := range s.batches(m.fn.number) {
			o.Reached = true
			r, err := s.run(ctx, m.number, b, "")
			if err != nil {
				return nil, err
			}
			o.Seconds += r.cpu.Seconds()
			if r.failed {
				o.Noticed, o.By = true, filepath.ToSlash(s.pkg)+": "+by(r.output)
				return o, nil
			}
		}
	}
	return o, nil
}
