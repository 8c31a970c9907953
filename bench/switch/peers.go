package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirgpu/weir/plan/cache"
	"github.com/weirgpu/weir/share"
)

//go:embed peer.py
var peerScript string

// peers is the group of that name. Each new process starts right after a switch.
func peers(ctx context.Context, b *bench) error {
	script, weir := filepath.Join(b.dir, "peer.py"), filepath.Join(b.dir, "weir")
	if err := os.WriteFile(script, []byte(peerScript), 0o600); err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", weir, "./cmd/weir")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build ./cmd/weir: %w: run this from the module's root: %s", err, out)
	}
	for _, s := range subjects {
		m, err := b.model(ctx, s.name)
		if err != nil {
			return err
		}
		other, err := b.model(ctx, s.beside)
		if err != nil {
			return err
		}
		b.memory.SetCap(share.Bytes(max(m.bytes(), other.bytes())))
		p := &peer{model: m, other: other, weir: weir, python: []string{b.python, script}}
		for range max(1, b.Rounds/10) {
			if err := p.round(ctx); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
		b.Peer = p.told.Version
		b.note(s.name+", switch in turn with new processes, ms", p.switched)
		b.note(s.name+", new process of weir's, ms", p.own)
		b.note(s.name+", new process of ONNX Runtime's, ms", p.process)
		b.note(s.name+", session and run of ONNX Runtime's, ms", p.session)
		b.note(s.name+", creation of a session of ONNX Runtime's, ms", p.created)
		b.note(s.name+", run of ONNX Runtime's, ms", p.run)
		b.note(s.name+", resident run in turn with new processes, ms", p.resident)
		for i := range p.switched {
			adds := p.switched[i] - p.resident[i]
			b.Claims.Check(s.name+", what a switch adds to a run over what a new process of "+
				"ONNX Runtime's adds", adds/(p.process[i]-p.run[i]), 0.1, true)
			b.Claims.Check(s.name+", what a switch adds to a run over the creation of a session "+
				"of ONNX Runtime's", adds/p.created[i], 0.1, true)
		}
	}
	return nil
}

// peer is what a switch is compared with, in milliseconds.
type peer struct {
	model, other *model
	weir         string
	python       []string
	told         struct {
		Version string  `json:"version"`
		Created float64 `json:"created_ms"`
		MS      float64 `json:"ms"`
		Run     float64 `json:"run_ms"`
	}
	switched, resident, own, process, created, session, run []float64
}

// round switches once, and starts each process once.
func (p *peer) round(ctx context.Context) error {
	if err := p.other.run(ctx); err != nil {
		return err
	}
	before := len(p.model.switched)
	if err := p.model.take(ctx, p.other); err != nil {
		return err
	}
	p.switched = append(p.switched, p.model.switched[before])
	p.model.switched = p.model.switched[:before]
	begin := time.Now()
	if err := p.model.run(ctx); err != nil {
		return err
	}
	p.resident = append(p.resident, ms(begin))
	if err := p.model.evict(); err != nil {
		return err
	}
	shape := []string{}
	for name, dims := range shapes[p.model.name] {
		text := strings.Trim(strings.ReplaceAll(fmt.Sprint(dims), " ", "x"), "[]")
		shape = append(shape, "--shape", name+"="+text)
	}
	plans := cache.EnvDir + "=" + filepath.Join(filepath.Dir(p.weir), "programs")
	start := append([]string{p.weir, "run", p.model.path, "--json"}, shape...)
	if len(p.own) == 0 { // the first one writes the plan
		if _, _, err := first(ctx, plans, start...); err != nil {
			return err
		}
	}
	took, _, err := first(ctx, plans, start...)
	if err != nil {
		return err
	}
	p.own = append(p.own, took)
	took, out, err := first(ctx, "", append(p.python, p.model.path)...)
	if err != nil {
		return err
	}
	for d := json.NewDecoder(bytes.NewReader(out)); err == nil; {
		err = d.Decode(&p.told)
	}
	if err != io.EOF || p.told.Run == 0 {
		return fmt.Errorf("peer.py: %w in %q", err, out)
	}
	p.process, p.session = append(p.process, took), append(p.session, p.told.MS)
	p.created, p.run = append(p.created, p.told.Created), append(p.run, p.told.Run)
	return nil
}

// first runs a program and returns the milliseconds to the first byte of its output, and the
// output.
func first(ctx context.Context, env string, args ...string) (took float64, out []byte, err error) {
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Env = append(os.Environ(), env)
	var talk strings.Builder
	c.Stderr = &talk
	pipe, err := c.StdoutPipe()
	if err != nil {
		return 0, nil, err
	}
	began := time.Now()
	if err := c.Start(); err != nil {
		return 0, nil, err
	}
	begin := make([]byte, 1)
	_, err = io.ReadFull(pipe, begin)
	took = ms(began)
	rest, restErr := io.ReadAll(pipe)
	if err := errors.Join(err, restErr, c.Wait()); err != nil {
		return 0, nil, fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, talk.String())
	}
	return took, append(begin, rest...), nil
}
