package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weirgpu/weir/share"
)

// NVIDIA's Multi-Process Service lets the programs of one user run on a device at once. A program
// becomes a client by itself when a control daemon is there as it begins; it may then use no more
// than a percentage of the device's threads, fixed at that moment. See "Volta MPS Execution
// Resource Provisioning" and "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" in the guide to MPS, which is the
// source of all that is said of it here: https://docs.nvidia.com/deploy/mps/.

// units is the number of a device's compute units: the percentages of MPS. A policy that needs no
// MPS grants all of them or none.
const units = 100

// ErrNoMPS: no control daemon of NVIDIA's Multi-Process Service answers.
var ErrNoMPS = errors.New("no MPS control daemon")

// MPS is a control daemon that programs become clients of.
type MPS struct {
	// Pipe is its pipe directory, absolute.
	Pipe string
	// Percent is what its clients may use of a device's threads at most, above 0 to 100.
	Percent float64
}

// MPSPipe returns the pipe directory that programs of this environment use:
// $CUDA_MPS_PIPE_DIRECTORY or, unless that is set, the one that the driver uses.
func MPSPipe() string {
	if dir := os.Getenv("CUDA_MPS_PIPE_DIRECTORY"); dir != "" {
		return dir
	}
	return "/tmp/nvidia-mps"
}

// mpsPatience is how long a control daemon may take to answer.
const mpsPatience = 2 * time.Second

// FindMPS asks the control daemon whose pipe directory is given for its limit, with the program
// nvidia-cuda-mps-control, a path or a name to be found. Where none answers the error is an
// [ErrNoMPS] that says why.
func FindMPS(ctx context.Context, program, pipe string) (MPS, error) {
	ctx, cancel := context.WithTimeout(ctx, mpsPatience)
	defer cancel()
	pipe, err := filepath.Abs(pipe)
	if err == nil {
		_, err = os.Stat(pipe)
	}
	if err != nil {
		return MPS{}, fmt.Errorf("%w: %w", ErrNoMPS, err)
	}
	// A server that runs has a limit of its own; without one it will have the default.
	command := "get_default_active_thread_percentage"
	servers, err := askMPS(ctx, program, pipe, "get_server_list")
	if err != nil {
		return MPS{}, err
	}
	if _, err := strconv.ParseUint(servers, 10, 32); err == nil {
		command = "get_active_thread_percentage " + servers
	}
	text, err := askMPS(ctx, program, pipe, command)
	if err != nil {
		return MPS{}, err
	}
	percent, err := strconv.ParseFloat(text, 64)
	if err != nil || !(percent > 0 && percent <= 100) {
		return MPS{}, fmt.Errorf("%w in %s: it answers %q to %s", ErrNoMPS, pipe, text, command)
	}
	return MPS{pipe, percent}, nil
}

// askMPS says a command to the control daemon and returns its answer.
func askMPS(ctx context.Context, program, pipe, command string) (string, error) {
	cmd := exec.CommandContext(ctx, program)
	cmd.Stdin = strings.NewReader(command + "\n")
	cmd.Env = append(os.Environ(), "CUDA_MPS_PIPE_DIRECTORY="+pipe)
	cmd.WaitDelay = mpsPatience
	var talk strings.Builder
	cmd.Stderr = &talk
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%w in %s: %w: %s", ErrNoMPS, pipe, err,
			strings.TrimSpace(talk.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// findMPS returns the control daemon that there is now, or the zero MPS, and what programs can be
// held to with it: without one contexts of several programs take turns on a device, whole, whatever
// their gates.
func (c *Config) findMPS() (MPS, share.Can) {
	can := share.Can{Launches: true}
	if c.MPS == nil {
		return MPS{}, can
	}
	m, err := c.MPS()
	if err != nil {
		c.Log.Info("programs take turns on the GPUs", "reason", err)
		return MPS{}, can
	}
	// Which multiprocessors a client gets is not for it to say, and a limit reserves none.
	can.Limit, can.Overlap = true, true
	return m, can
}

// lacksMPS adds to the refusal of a policy what would change it.
func lacksMPS(err error, can share.Can) error {
	if !errors.Is(err, share.ErrCannot) || can.Overlap {
		return err
	}
	return fmt.Errorf("%w, or start nvidia-cuda-mps-control -d for limit and overlap", err)
}

// threads is the active thread percentage with which processes of a job begin that is held to so
// many units, or 0 where they need not be clients of MPS. The agent's lock is held.
func (d *device) threads(most int) uint32 {
	if !d.clients {
		return 0
	}
	return uint32(max(1, min(float64(most), d.mps.Percent)))
}

// setThreads writes what the processes of the job that begin from here on may use, and tells of
// those that keep something else. The agent's lock is held.
func (j *job) setThreads() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ended || j.unmapped {
		return
	}
	j.terms.ThreadPercent = j.dev.threads(j.bj.UnitLimit())
	j.writeTerms()
	for _, m := range j.members {
		if m != nil && m.keepsThreads(j.terms.ThreadPercent) {
			j.a.log.Info("a process keeps the part of the GPU that it began with", "job", j,
				"pid", m.who.PID, "percent", m.s.ThreadPercent.Load(), "percent_of_job",
				j.terms.ThreadPercent)
		}
	}
}

// keepsThreads reports whether the process uses the device and began with another percentage than
// one that begins now would: it cannot be held to that.
func (m *member) keepsThreads(percent uint32) bool {
	return percent > 0 && m.s.ThreadPercent.Load() != percent &&
		m.s.MemoryHeld() > 0
}

// start says how processes of the job are to begin: with which percentage, or 0, as clients of
// which control daemon.
func (a *Agent) start(j *job) (percent uint32, pipe string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !j.dev.clients {
		return 0, ""
	}
	return j.dev.threads(j.bj.UnitLimit()), j.dev.mps.Pipe
}
