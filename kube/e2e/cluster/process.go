package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// process is one that runs until the cluster ends. What it says is in a file of its name.
type process struct {
	name  string
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended; its error is in cmd then
}

// begin starts a binary of the build. It dies with the thread that started it, and so with this
// program, however that ends.
func (c *Cluster) begin(name string, args ...string) (*process, error) {
	return c.beginPath(name, c.binary(name), args...)
}

func (c *Cluster) beginPath(name, path string, args ...string) (*process, error) {
	log, err := os.Create(filepath.Join(c.dir, name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{name: name, cmd: exec.Command(path, args...), ended: make(chan struct{})}
	p.cmd.Dir = c.dir
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	c.processes = append(c.processes, p)
	return p, nil
}

// kill ends a process at once and waits for it: an API server that is asked to end keeps its port
// while it drains.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.ended
}

// failed is the error of a process that has ended by itself; nil while it runs.
func (c *Cluster) failed(p *process) error {
	select {
	case <-p.ended:
		return fmt.Errorf("%s ended: %v: its last words:\n%s", p.name, p.cmd.ProcessState,
			c.lastWords(p.name))
	default:
		return nil
	}
}

// lastWords is the end of what a process said.
func (c *Cluster) lastWords(name string) string {
	text, err := os.ReadFile(filepath.Join(c.dir, name+".log"))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

// write puts a file of the cluster in place and returns its path.
func (c *Cluster) write(name, text string) (string, error) {
	path := filepath.Join(c.dir, name)
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
		os.WriteFile(path, []byte(text), 0o600))
	return path, err
}
