package main

import (
	"bytes"
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

	"github.com/weirgpu/weir/examples/digits"
)

// The bounds of a server that does nothing.
const (
	mostReady    = 100 * time.Millisecond
	mostResident = 40e6  // bytes
	mostBusy     = 0.005 // of a core
)

// idleResult is what servers cost that are asked nothing.
type idleResult struct {
	Starts   int        `json:"starts"`
	Ready    [2]float64 `json:"ready_ms"` // median and most, of servers without a model
	Digits   [2]float64 `json:"ready_with_a_model_ms"`
	Resident float64    `json:"resident_mb"` // with a model
	Busy     float64    `json:"busy_cores"`
	Seconds  float64    `json:"seconds"` // over which busy was counted
}

func (r *idleResult) ok() bool {
	return r.Ready[0] <= mostReady.Seconds()*1000 && r.Resident <= mostResident/1e6 &&
		r.Busy <= mostBusy
}

// idle starts the command's servers, and looks at one that is asked nothing.
func idle(starts int, during time.Duration) (*idleResult, error) {
	dir, err := os.MkdirTemp("", "weir-idle-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	weir := filepath.Join(dir, "weir")
	build := exec.Command("deploy/static.sh", weir)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, err
	}
	models := filepath.Join(dir, "kept") // of which none is loaded without a request
	at := filepath.Join(models, "digits", "1", "model.onnx")
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(at, digits.Model, 0o600); err != nil {
		return nil, err
	}
	r := &idleResult{Starts: starts, Seconds: during.Seconds()}
	for _, of := range []struct {
		to    *[2]float64
		flags []string
	}{{&r.Ready, []string{"--models", models, "--control",
		"explicit"}}, {&r.Digits, nil}} {
		var took []float64
		for range starts {
			ready, err := serving(weir, dir, of.flags, nil)
			if err != nil {
				return nil, err
			}
			took = append(took, ready.Seconds()*1000)
		}
		slices.Sort(took)
		*of.to = [2]float64{took[len(took)/2], took[len(took)-1]}
	}
	_, err = serving(weir, dir, nil, func(pid int) error {
		time.Sleep(5 * time.Second) // what is learned of a model is learned by then
		before, err := busy(pid)
		if err != nil {
			return err
		}
		time.Sleep(during)
		after, err := busy(pid)
		r.Busy = (after - before).Seconds() / during.Seconds()
		r.Resident = float64(residentOf(strconv.Itoa(pid))) / 1e6
		return err
	})
	return r, err
}

// serving starts a server, has f look at it, and ends it. It returns how long it took until the
// server said that it is ready.
func serving(weir, dir string, flags []string, f func(pid int) error) (took time.Duration,
	err error) {
	var said bytes.Buffer
	c := exec.Command(weir, append([]string{"up", "--json", "--http", "localhost:0", "--grpc",
		"localhost:0", "--metrics", "localhost:0"}, flags...)...)
	c.Dir, c.Stderr = dir, &said
	out, err := c.StdoutPipe()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := c.Start(); err != nil {
		return 0, err
	}
	var is struct{ Ready bool }
	if err = json.NewDecoder(out).Decode(&is); err == nil && !is.Ready {
		err = errors.New("it is not ready")
	}
	took = time.Since(began)
	if err == nil && f != nil {
		err = f(c.Process.Pid)
	}
	if err != nil {
		_ = c.Process.Kill()
		_ = c.Wait()
		return took, fmt.Errorf("weir up: %w: %s", err, &said)
	}
	if err := c.Process.Signal(syscall.SIGINT); err != nil {
		return took, err
	}
	return took, c.Wait()
}

// tick is the unit of the system's times of processes: USER_HZ.
const tick = 10 * time.Millisecond

// busy is the processor's time that a process has had (proc_pid_stat(5)).
func busy(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(b), ") ")
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0, fmt.Errorf("process %d: %.100q is no line of proc_pid_stat(5)", pid, b)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick, err
}
