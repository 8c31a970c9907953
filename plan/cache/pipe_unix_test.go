//go:build unix

package cache

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/plan"
)

// pipe makes a named pipe.
func pipe(t *testing.T, path string) {
	t.Helper()
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
}

// neverOpens fails when f opens a pipe, for which it would wait until somebody opens it for
// writing.
func neverOpens(t *testing.T, path string, f func()) {
	t.Helper()
	done := make(chan bool)
	go func() {
		defer close(done)
		f()
	}()
	for {
		select {
		case <-done:
			return
		default:
		}
		// this fails while nobody has it open for reading
		if fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
			t.Errorf("%s is opened", path)
			<-done // opening it waits for nobody any more
			if err := unix.Close(fd); err != nil {
				t.Error(err)
			}
			return
		}
		runtime.Gosched()
	}
}

// TestPipes puts named pipes where a model's external data and the folder of plans are, and looks
// for a plan of one: nothing waits for a writer.
func TestPipes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.onnx")
	writeModel(t, path, parseWithWeights(t, `graph "sum" {
  opset "" 17
  input %x: float32[64,64]
  const %c: float32[64,64] = at 0
  %y: float32[64,64] = Add@14 "add" (%x, %c)
  output %y
}
`), onnx.WriteOptions{MaxInline: 1})
	folder := filepath.Join(dir, "plans")
	pipe(t, folder)
	want, _ := start(t, nil, path, plan.Options{Target: host})
	c := newCache(t)
	c.dir = folder
	warned := c.warnings()
	neverOpens(t, folder, func() {
		for range 2 {
			got, cached := start(t, c, path, plan.Options{Target: host})
			if cached || !bytes.Equal(got, want) {
				t.Errorf("from the cache: %v; right: %v", cached, bytes.Equal(got, want))
			}
		}
	})
	if lines(warned) != 1 {
		t.Errorf("want one warning: %s", warned)
	}
	c = newCache(t)
	start(t, c, path, plan.Options{Target: host})
	data := path + ".data"
	if err := os.Remove(data); err != nil {
		t.Fatal(err)
	}
	pipe(t, data)
	neverOpens(t, data, func() {
		if m, err := c.Model(path); err == nil {
			t.Error("a model was opened whose external data is a pipe")
			m.Close()
		}
	})
	neverOpens(t, data, func() {
		if f, _, err := identify(data); err == nil {
			t.Error("a pipe was identified")
			f.Close()
		}
	})
}
