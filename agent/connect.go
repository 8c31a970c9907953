package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// logName is the file in the runtime folder to which an agent that was started by [Connect] talks.
const logName = "agent.log"

// startWait is how long an agent may take to serve.
const startWait = 15 * time.Second

// Connect connects to the agent of a runtime folder, and starts one with this command if there is
// none. The agent outlives the caller. It fails with [ErrForeign] if the folder or its agent is
// another user's.
func Connect(ctx context.Context, dir string, command []string) (*Client, error) {
	if err := MakeRuntimeDir(dir); err != nil {
		return nil, err
	}
	c, err := Dial(dir)
	if !errors.Is(err, ErrNotRunning) {
		return c, err
	}
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	log := filepath.Join(dir, logName)
	died, err := spawn(command, log)
	if err != nil {
		return nil, fmt.Errorf("agent: start: %w", err)
	}
	for {
		if c, err = Dial(dir); err == nil {
			return c, nil
		}
		select {
		case <-time.After(dialEvery):
		case <-ctx.Done():
			return nil, fmt.Errorf("agent: started and does not answer: %w: see %s", ctx.Err(), log)
		case err := <-died:
			// Another process may have started one at the same time, which will answer soon.
			if c, e := dialWithin(ctx, dir, time.Second); e == nil {
				return c, nil
			}
			return nil, fmt.Errorf("agent: started and ended (%w): %s", err, lastLine(log))
		}
	}
}

// dialEvery is how often a new agent's socket is tried.
const dialEvery = 5 * time.Millisecond

func dialWithin(ctx context.Context, dir string, most time.Duration) (*Client, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		c, err := Dial(dir)
		if err == nil || ctx.Err() != nil {
			return c, err
		}
		select {
		case <-time.After(dialEvery):
		case <-ctx.Done():
		}
	}
}

// spawn starts a command apart from this process's session and terminal, and returns a channel that
// tells of its end.
func spawn(command []string, log string) (<-chan error, error) {
	out, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, "/"
	cmd.SysProcAttr = detached()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	died := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		if err == nil {
			err = errors.New("without an error")
		}
		died <- err
	}()
	return died, nil
}

// lastLine returns what the agent said last.
func lastLine(log string) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}
