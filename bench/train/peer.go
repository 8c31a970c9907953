package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// eager is the script of PyTorch, beside the module's root.
const eager = "bench/train/eager.py"

// peer is a process that trains the same models. While nothing is asked of it, it is stopped: pools
// of threads that wait busily would take time from whoever is timed.
type peer struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// values are a tensor.
type values struct {
	Shape []int     `json:"shape"`
	Data  []float32 `json:"data"`
}

// request has a process begin a model, or PyTorch write one to the file Export. Models that it
// writes take their batches from files of Folder, where it leaves their gradients. With Race the
// model is raced alone, and Export is its file.
type request struct {
	Model     string            `json:"model"`
	Race      bool              `json:"race,omitempty"`
	Compile   bool              `json:"compile,omitempty"`
	Export    string            `json:"export,omitempty"`
	Exact     bool              `json:"exact,omitempty"` // in float64
	Folder    string            `json:"folder,omitempty"`
	Tokens    int               `json:"tokens,omitempty"`
	Updates   int               `json:"updates"`
	Optimizer map[string]any    `json:"optimizer"`
	Threads   int               `json:"threads"`
	Weights   map[string]values `json:"weights,omitempty"`
	Shapes    map[string][]int  `json:"shapes,omitempty"` // of trained weights
	Shape     []int             `json:"shape"`
	X         [][]float32       `json:"x"`
	Y         [][]int64         `json:"y"`
}

// answer is what it says: of a beginning losses and gradients, of more updates their times.
type answer struct {
	Version   string               `json:"version"`
	Losses    []float64            `json:"losses"`
	Exact     []float64            `json:"exact"` // losses in float64
	Gradients map[string][]float32 `json:"gradients"`
	Files     map[string]string    `json:"files"` // of gradients
	Peak      float64              `json:"peak"`  // bytes by which the process grew
	MS        []float64            `json:"ms"`
	Error     string               `json:"error"`
}

// start starts a process of a Python with a script; the caller stops it. A group of its own lets
// all that it starts be stopped with it, and the system end them if this process ends first.
func start(ctx context.Context, python string, args ...string) (*peer, error) {
	c := exec.CommandContext(ctx, python, args...)
	c.Stderr = os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	return &peer{c, in, bufio.NewReader(out)}, nil
}

func (p *peer) stop() error {
	return errors.Join(p.signal(syscall.SIGCONT), p.in.Close(), p.command.Wait())
}

// signal sends a signal to the process and all that it started.
func (p *peer) signal(s syscall.Signal) error { return syscall.Kill(-p.command.Process.Pid, s) }

// ask sends a request and waits for its answer.
func (p *peer) ask(request any) (_ *answer, err error) {
	text, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	if err := p.signal(syscall.SIGCONT); err != nil {
		return nil, err
	}
	if _, err := p.in.Write(append(text, '\n')); err != nil {
		return nil, err
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("%s ended before it answered (%w): what it says stands above",
			p.command, err)
	}
	a := &answer{}
	if err := errors.Join(json.Unmarshal(line, a), p.signal(syscall.SIGSTOP)); err != nil {
		return nil, err
	}
	if a.Error != "" {
		return nil, errors.New(a.Error)
	}
	return a, nil
}

// time has the process make n updates more, and returns the milliseconds of each.
func (p *peer) time(_ context.Context, n int) ([]float64, error) {
	a, err := p.ask(map[string]int{"time": n})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.command, err)
	}
	return a.MS, nil
}
