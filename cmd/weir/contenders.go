package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed" // the script of other runtimes
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/feed"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/scenario"
)

// The runtimes that bench --compare finds in a Python environment, by the names of their packages.
const (
	onnxRuntime = "onnxruntime"
	openVINO    = "openvino"
)

// openContenders opens this weir and what it is compared with, both with the same inputs, threads
// and device, and names them in a result.
func openContenders(c *cobra.Command, path string, f *benchFlags) (ours, theirs contender,
	res *comparison, err error) {
	own, err := openInstance(c, path, &f.dev, f)
	if err != nil {
		return nil, nil, nil, err
	}
	threads := own.on.Pool.Threads()
	res = &comparison{Threads: threads, Precision: string(scenario.PrecisionOf(own.m.plan)),
		Device: own.on.Device.Info().ID}
	res.Name = "weir"
	ours = own
	switch with := f.compare.with; {
	case slices.Contains([]pass.Precision{pass.FP32, pass.BF16, pass.Auto}, pass.Precision(with)):
		other := f.dev
		other.precision = with
		res.Name, res.Other.Name = "weir in "+f.dev.precision, "weir in "+with
		theirs, err = openInstance(c, path, &other, f)
	case with == onnxRuntime || with == openVINO:
		theirs, res.Other.Name, err = own.openPeer(c.Context(), path, with, res)
	default:
		res.Name, res.Other.Name = "this weir", with
		ours, theirs, err = own.openBinaries(path, with, &f.dev)
	}
	if err != nil {
		return nil, nil, nil, errors.Join(err, own.close())
	}
	return ours, theirs, res, nil
}

// instance is a model loaded in this process.
type instance struct {
	path   string
	on     *machine.Machine
	m      *compiled
	i      *engine.Instance
	unload func()
	warmup int    // runs before those of each turn
	dir    string // of files that others read, "" while there are none
}

// openInstance loads a model where and in the precision that dev says.
func openInstance(c *cobra.Command, path string, dev *deviceFlags, f *benchFlags) (*instance,
	error) {
	on, err := dev.open()
	if err != nil {
		return nil, err
	}
	m, err := compileModel(c, path, &f.model, dev, on)
	if err != nil {
		return nil, errors.Join(err, on.Close())
	}
	i, unload, err := m.load(on, &f.model)
	if err != nil {
		return nil, errors.Join(failed(fmt.Errorf("%s: %w", path, err)), m.model.Close(),
			on.Close())
	}
	return &instance{path: path, on: on, m: m, i: i, unload: unload, warmup: f.warmup}, nil
}

// turn implements contender.
func (n *instance) turn(ctx context.Context, runs int) (median, least float64, err error) {
	var times []float64
	for k := range n.warmup + runs {
		if err := feed.Fill(n.i.Inputs(), n.m.inputs); err != nil {
			return 0, 0, err
		}
		t := time.Now()
		if err := n.i.Run(ctx, device.Open); err != nil {
			return 0, 0, failedRun(n.path, err)
		}
		if k >= n.warmup {
			times = append(times, ms(time.Since(t)))
		}
	}
	return middle(times), slices.Min(times), nil
}

// close implements contender.
func (n *instance) close() error {
	n.unload()
	n.m.keep()
	var err error
	if n.dir != "" {
		err = os.RemoveAll(n.dir)
	}
	return errors.Join(err, n.m.model.Close(), n.on.Close())
}

// inputFiles writes the inputs to files, by name, in the order of the model.
func (n *instance) inputFiles() (names, files []string, err error) {
	if n.dir, err = os.MkdirTemp("", "weir-bench-"); err != nil {
		return nil, nil, failed(err)
	}
	for k, v := range n.m.model.Graph.Inputs {
		t := n.m.inputs[k]
		file := filepath.Join(n.dir, strconv.Itoa(k)+".npy")
		if t.DType.IsContainer() {
			return nil, nil, fmt.Errorf("--compare: input %q is a %v, for which NumPy has no file",
				v.Name, v.Type)
		}
		if err := writeNPY(file, t); err != nil {
			return nil, nil, failed(fmt.Errorf("input %q: %w", v.Name, err))
		}
		names, files = append(names, v.Name), append(files, file)
	}
	return names, files, nil
}

// binary is a weir that is started for each turn.
type binary struct {
	args   []string
	warmup int
	owner  io.Closer // closed with it, nil if another closes that
}

// openBinaries makes contenders of this program and of another, started alike: a process that has
// just begun differs from one that has run for long.
func (n *instance) openBinaries(path, other string, dev *deviceFlags) (ours, theirs contender,
	err error) {
	found, err := exec.LookPath(other)
	if err != nil {
		return nil, nil, fmt.Errorf("--compare %s: want a precision (fp32, bf16, auto), %s, %s or "+
			"another weir: %w", other, onnxRuntime, openVINO, err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, nil, failed(err)
	}
	names, files, err := n.inputFiles()
	if err != nil {
		return nil, nil, err
	}
	args := []string{"bench", path, "--json", "--device", dev.device, "--precision", dev.precision,
		"--threads", strconv.Itoa(n.on.Pool.Threads())}
	for k := range names {
		args = append(args, "--input", names[k]+"="+files[k])
	}
	return &binary{append([]string{self}, args...), n.warmup, closer(n.close)},
		&binary{append([]string{found}, args...), n.warmup, nil}, nil
}

// closer is a function as an io.Closer.
type closer func() error

// Close implements io.Closer.
func (f closer) Close() error { return f() }

// turn implements contender.
func (b *binary) turn(ctx context.Context, runs int) (median, least float64, err error) {
	args := append(b.args[1:len(b.args):len(b.args)], "--runs", strconv.Itoa(runs), "--warmup",
		strconv.Itoa(b.warmup))
	cmd := exec.CommandContext(ctx, b.args[0], args...)
	var talk bytes.Buffer
	cmd.Stderr = &talk
	out, err := cmd.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %s", err, lastLine(talk.String()))
	}
	var res benchResult
	if err := json.Unmarshal(out, &res); err != nil || res.MedianMS <= 0 {
		return 0, 0, fmt.Errorf("weir bench --json of it printed no median_ms: %.80q", out)
	}
	return res.MedianMS, res.MinMS, nil
}

// close implements contender.
func (b *binary) close() error {
	if b.owner == nil {
		return nil
	}
	return b.owner.Close()
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// peerScript runs a model in another runtime.
//
//go:embed compare.py
var peerScript string

// peer is another runtime in a Python process.
type peer struct {
	cmd     *exec.Cmd
	to      io.WriteCloser
	from    *bufio.Reader
	talk    bytes.Buffer
	runtime string
	warmup  int
}

// peerAnswer is a line of the script.
type peerAnswer struct {
	Name  string    `json:"name"`
	MS    []float64 `json:"ms"`
	Error string    `json:"error"`
	// Missing says that the package is not installed.
	Missing bool `json:"missing"`
}

// openPeer starts another runtime on the inputs of n, and says its name and version.
func (n *instance) openPeer(ctx context.Context, path, runtime string, res *comparison) (contender,
	string, error) {
	names, files, err := n.inputFiles()
	if err != nil {
		return nil, "", err
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		return nil, "", fmt.Errorf("--compare %s needs python3, and the package (python3 -m pip "+
			"install %[1]s): %w", runtime, err)
	}
	p := &peer{cmd: exec.CommandContext(ctx, python, "-c", peerScript), runtime: runtime,
		warmup: n.warmup}
	p.cmd.Stderr, p.cmd.WaitDelay = &p.talk, time.Second
	if err := p.start(); err != nil {
		return nil, "", failed(err)
	}
	answer, err := p.ask(map[string]any{"runtime": runtime, "model": path, "inputs": names,
		"files": files, "threads": res.Threads, "precision": res.Precision})
	if err != nil {
		return nil, "", errors.Join(err, p.close())
	}
	return p, answer.Name, nil
}

func (p *peer) start() (err error) {
	if p.to, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	p.from = bufio.NewReader(out)
	return p.cmd.Start()
}

// ask sends a line and waits for the answer.
func (p *peer) ask(question any) (*peerAnswer, error) {
	line, err := json.Marshal(question)
	if err != nil {
		return nil, err
	}
	// A process that has ended is told of by what it left.
	_, _ = p.to.Write(append(line, '\n'))
	text, err := p.from.ReadBytes('\n')
	if err != nil {
		_ = p.close() // what it left is written until then
		return nil, failed(fmt.Errorf("--compare %s: python3 ended: %s", p.runtime,
			cmp.Or(lastLine(p.talk.String()), err.Error())))
	}
	var a peerAnswer
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, failed(fmt.Errorf("--compare %s: python3 answered %.80q", p.runtime, text))
	}
	switch {
	case a.Missing:
		return nil, fmt.Errorf("--compare %s: the python3 of $PATH has no such package (%s): "+
			"python3 -m pip install %[1]s", p.runtime, a.Error)
	case a.Error != "":
		return nil, failed(fmt.Errorf("--compare %s: %s", p.runtime, a.Error))
	}
	return &a, nil
}

// turn implements contender.
func (p *peer) turn(_ context.Context, runs int) (median, least float64, err error) {
	a, err := p.ask(map[string]any{"runs": runs, "warmup": p.warmup})
	if err != nil {
		return 0, 0, err
	}
	if len(a.MS) != runs {
		return 0, 0, fmt.Errorf("%d times of %d runs", len(a.MS), runs)
	}
	return middle(a.MS), slices.Min(a.MS), nil
}

// close implements contender.
func (p *peer) close() error {
	err := p.to.Close()
	// How it ends says nothing of what it measured.
	_ = p.cmd.Wait()
	return err
}
