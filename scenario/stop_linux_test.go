package scenario

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu/kernels"
)

// TestPrepareStopsAtPipes holds that preparing a job whose model or input is a pipe that nobody
// writes ends with its context: no signal ends the system call that waits.
func TestPrepareStopsAtPipes(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "x.npy")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	defer func() { // lets go who still opens it
		f, err := os.OpenFile(pipe, os.O_RDWR|syscall.O_NONBLOCK, 0)
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			t.Error(err)
		}
	}()
	cause := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	input := closedJob("input", denseGraph(t), 1)
	input.Inputs = map[string]string{"x": pipe}
	for _, job := range []Job{{Model: pipe}, input} {
		ended := make(chan error, 1)
		go func() {
			_, err := prepare(ctx, job, nil, kernels.Target(device.Info{}), 1, 1)
			ended <- err
		}()
		select {
		case err := <-ended:
			if !errors.Is(err, cause) {
				t.Errorf("job %q: %v", job.Name, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("job %q waits for the pipe", job.Name)
		}
	}
}
