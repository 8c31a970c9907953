package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/internal/shim"
	"github.com/weirgpu/weir/internal/shim/stage"
)

// host is what is measured: the command weir and its library, built from this source, with an agent
// and a simulated device of their own.
type host struct {
	ctx     context.Context
	dir     string // of this run
	weir    string
	library string // of the shim
	driver  string // folder of the fake driver
	env     []string
	agent   *exec.Cmd
	started int
	kept    []*agent.Client
}

// newHost builds what is measured. Settings of the fake driver go by its variables.
func newHost(ctx context.Context, settings ...string) (*host, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	library, err := shim.Build(ctx, cache, "")
	if err != nil {
		return nil, err
	}
	s, err := stage.New(ctx, settings...)
	if err != nil {
		return nil, err
	}
	h := &host{ctx: ctx, dir: s.Dir, weir: s.Weir, library: library, driver: s.Driver, env: s.Env}
	return h, h.startAgent()
}

// startAgent starts weir agent and waits until it answers.
func (h *host) startAgent() error {
	log, err := os.Create(filepath.Join(h.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	h.agent = exec.CommandContext(h.ctx, h.weir, "agent", "--fake-gpu")
	h.agent.Env, h.agent.Stdout, h.agent.Stderr = h.env, log, log
	if err := h.agent.Start(); err != nil {
		return err
	}
	return within(10*time.Second, "the agent answers", func() bool {
		c, err := agent.Dial(h.dir)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

// close ends the agent and forgets the device.
func (h *host) close() {
	for _, c := range h.kept {
		_ = c.Close()
	}
	_ = h.agent.Process.Signal(syscall.SIGTERM)
	_ = h.agent.Wait()
	_ = os.RemoveAll(h.dir)
}

// program is one that runs, under a share or beside it.
type program struct {
	*exec.Cmd
	name     string
	out, err buffer
	in       io.WriteCloser
}

// program prepares one of the fake driver's programs; without flags it runs without weir.
func (h *host) program(flags []string, name string, args ...string) (*program, error) {
	h.started++
	p := &program{name: fmt.Sprintf("%s.%d", name, h.started)}
	argv := append([]string{filepath.Join(h.driver, "bin", name)}, args...)
	env := h.env
	if flags == nil {
		env = append(env, "LD_LIBRARY_PATH="+h.driver)
	} else {
		argv = append(
			append(
				[]string{h.weir, "exec", "--fake-gpu", "--shim", h.library, "--name", p.name},
				append(flags, "--")...),
			argv...)
	}
	p.Cmd = exec.CommandContext(h.ctx, argv[0], argv[1:]...)
	p.Env, p.Stdout, p.Stderr = env, &p.out, &p.err
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var err error
	p.in, err = p.StdinPipe()
	return p, err
}

// start prepares and starts a program.
func (h *host) start(flags []string, name string, args ...string) (*program, error) {
	p, err := h.program(flags, name, args...)
	if err == nil {
		err = p.Start()
	}
	return p, err
}

// result waits for the end and decodes the last line.
func (p *program) result(into any) error {
	err := p.Wait()
	if err == nil {
		text := strings.TrimSpace(p.out.String())
		err = json.Unmarshal([]byte(text[strings.LastIndexByte(text, '\n')+1:]), into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s%s", p.name, err, p.out.String(), p.err.String())
	}
	return nil
}

// kill ends a program, and weir exec with it, which waits for the program: so its processor time is
// known.
func (p *program) kill() {
	_ = p.in.Close()
	if p.ProcessState != nil {
		return
	}
	_ = syscall.Kill(-p.Process.Pid, syscall.SIGTERM)
	late := time.AfterFunc(5*time.Second,
		func() { _ = syscall.Kill(-p.Process.Pid, syscall.SIGKILL) })
	_ = p.Wait()
	late.Stop()
}

// run runs a program to its end.
func (h *host) run(into any, flags []string, name string, args ...string) error {
	p, err := h.start(flags, name, args...)
	if err != nil {
		return err
	}
	_ = p.in.Close()
	return p.result(into)
}

// jobs asks the agent for its jobs, by name.
func (h *host) jobs() (map[string]agent.JobSnapshot, error) {
	c, err := agent.Dial(h.dir)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	all := map[string]agent.JobSnapshot{}
	err = c.Watch(h.ctx, 0, func(s agent.Snapshot) error {
		for _, j := range s.Devices[0].Jobs {
			all[j.Name] = j
		}
		return nil
	})
	return all, err
}

// ledger is what the simulated device holds itself.
type ledger struct {
	Used, Peak uint64
	Processes  []struct{ PID int }
}

func (h *host) ledger() (l ledger, err error) {
	return l, h.run(&l, nil, "smi")
}

// within waits until a condition holds.
func within(limit time.Duration, what string, holds func() bool) error {
	for end := time.Now().Add(limit); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("not within %v: %s", limit, what)
		}
	}
	return nil
}

var errMeasure = errors.New("could not be measured")
