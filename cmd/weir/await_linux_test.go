package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirgpu/weir/onnx"
)

// neverWritten makes a pipe that nobody writes while the test runs.
func neverWritten(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { // lets go who still opens it
		f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			t.Error(err)
		}
	})
	return path
}

// TestStoppedAtPipes holds that a signal ends a command that waits for whoever writes a pipe: no
// signal ends the system call, and it took a second one.
func TestStoppedAtPipes(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&stopped{os.Interrupt})
	model, pipe := digitsFile(t), neverWritten(t, "pipe")
	for _, args := range [][]string{
		{"run", pipe}, {"bench", pipe}, {"inspect", pipe}, {"optimize", pipe, "-"},
		{"run", model, "--input", "image=" + neverWritten(t, "x.npy")},
		{"run", model, "--input", "image=" + neverWritten(t, "x.pb")},
		{"run", model, "--input", "image=" + neverWritten(t, "x.png")},
		{"run", model, "--input", neverWritten(t, "x.npz")},
		{"run", model, "--labels", pipe}, {"share", pipe}, {"simulate", pipe},
	} {
		var out, talk bytes.Buffer
		ended := make(chan int, 1)
		go func() { ended <- execute(ctx, args, nil, &out, &talk) }()
		select {
		case code := <-ended:
			if code != 130 || talk.String() != "weir: stopped\n" {
				t.Errorf("%v: exit code %d, %q", args, code, talk.String())
			}
		case <-time.After(time.Minute):
			t.Fatalf("%v waits for the pipe", args)
		}
	}
}

// TestStoppedAtOutputs holds the same of a command that writes a pipe which nobody reads on.
func TestStoppedAtOutputs(t *testing.T) {
	model, scenario := digitsFile(t), filepath.Join(t.TempDir(), "s.yaml")
	text := "jobs: [{name: a, model: " + model + ", iterations: 300}]"
	if err := os.WriteFile(scenario, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file string
		args func(path string) []string
	}{
		{"m.onnx", func(path string) []string {
			return []string{"model", "new", "mobilenetv2", path}
		}},
		{"m.onnx", func(path string) []string { return []string{"optimize", model, path} }},
		{"probabilities.npy", func(path string) []string {
			return []string{"run", model, "--shape", "image=4096x1x8x8", "--output",
				filepath.Dir(path)}
		}},
		{"t.json", func(path string) []string {
			return []string{"share", scenario, "--trace", path}
		}},
		{"p.html", func(path string) []string {
			return []string{"share", scenario, "--html", path}
		}},
		{"p.html", func(path string) []string {
			return []string{"bench", model, "--runs", "3", "--profile", "--html", path}
		}},
	} {
		path := neverWritten(t, c.file)
		r, err := os.OpenFile(path, os.O_RDWR, 0) // to wait for data alone
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if _, err := unix.FcntlInt(r.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
			t.Skip(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		args := c.args(path)
		var out, talk bytes.Buffer
		ended := make(chan int, 1)
		go func() { ended <- execute(ctx, args, nil, &out, &talk) }()
		if _, err := r.Read(make([]byte, 1)); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		cancel(&stopped{os.Interrupt})
		select {
		case code := <-ended:
			if code != 130 || !strings.HasSuffix(talk.String(), "weir: stopped\n") {
				t.Errorf("%v: exit code %d, %q", args, code, talk.String())
			}
		case <-time.After(time.Minute):
			t.Fatalf("%v waits for the pipe", args)
		}
	}
}

// TestInspectOfPipe holds that a model with an operator that weir does not have is shown from a
// pipe, which is read once, as from a file.
func TestInspectOfPipe(t *testing.T) {
	data, err := os.ReadFile(modelFile(t, unknownOperator, onnx.WriteOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() {
		_, err := w.Write(data)
		if err = errors.Join(err, w.Close()); err != nil {
			t.Error(err)
		}
	}()
	c := weir(t, "inspect", fmt.Sprint("/dev/fd/", r.Fd()))
	if !strings.Contains(c.out, "unknown Frobnicate") {
		t.Errorf("exit code %d, %s%s", c.code, c.out, c.talk)
	}
}

// TestStoppedAtStandardOutput: what goes to standard output, a model or text that is longer than a
// pipe holds, ends with the context of the command, though nobody reads on; who reads within a
// moment has all of it.
func TestStoppedAtStandardOutput(t *testing.T) {
	model := digitsFile(t)
	for _, args := range [][]string{{"optimize", model, "-"},
		{"policies", "--json"}} {
		t.Run(args[0], func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			defer w.Close()
			if _, err := unix.FcntlInt(r.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
				t.Skip(err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			ended := make(chan int, 1)
			go func() { ended <- execute(ctx, args, nil, w, t.Output()) }()
			if _, err := r.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			cancel(&stopped{unix.SIGTERM})
			if code := <-ended; code != 143 {
				t.Errorf("exit code %d", code)
			}
		})
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() {
		defer w.Close()
		if code := execute(t.Context(), []string{"policies", "--json"}, nil, w,
			t.Output()); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}()
	var want strings.Builder
	execute(t.Context(), []string{"policies", "--json"}, nil, &want, t.Output())
	if got, err := io.ReadAll(r); string(got) != want.String() || err != nil {
		t.Errorf("read are %d of %d bytes (%v)", len(got), want.Len(), err)
	}
}
