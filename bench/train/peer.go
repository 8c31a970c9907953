package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

//go:embed eager.py
var eager string

// peer is a process of PyTorch that trains the same models.
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

// request has PyTorch begin a model, or write one to the file Export. Models that it writes take
// their batches from files of Folder, where it leaves their gradients.
type request struct {
	Model     string            `json:"model"`
	Export    string            `json:"export,omitempty"`
	Exact     bool              `json:"exact,omitempty"` // in float64
	Folder    string            `json:"folder,omitempty"`
	Tokens    int               `json:"tokens,omitempty"`
	Updates   int               `json:"updates"`
	Optimizer map[string]any    `json:"optimizer"`
	Threads   int               `json:"threads"`
	Weights   map[string]values `json:"weights"`
	Shape     []int             `json:"shape"`
	X         [][]float32       `json:"x"`
	Y         [][]int64         `json:"y"`
}

// answer is what it says: of a beginning losses and gradients, of more updates their times.
type answer struct {
	Torch     string               `json:"torch"`
	Losses    []float64            `json:"losses"`
	Exact     []float64            `json:"exact"` // losses in float64
	Gradients map[string][]float32 `json:"gradients"`
	Files     map[string]string    `json:"files"` // of gradients
	Peak      float64              `json:"peak"`  // bytes by which the process grew
	MS        []float64            `json:"ms"`
	Error     string               `json:"error"`
}

// start starts the process; the caller stops it.
func start(ctx context.Context, python string) (*peer, error) {
	c := exec.CommandContext(ctx, python, "-c", eager)
	c.Stderr = os.Stderr
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

func (p *peer) stop() error { return errors.Join(p.in.Close(), p.command.Wait()) }

// ask sends a request and waits for its answer.
func (p *peer) ask(request any) (*answer, error) {
	text, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	if _, err := p.in.Write(append(text, '\n')); err != nil {
		return nil, err
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("%s: %w: want a Python that has torch: give it by -python",
			p.command.Path, err)
	}
	a := &answer{}
	return a, json.Unmarshal(line, a)
}
