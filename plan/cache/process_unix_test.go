//go:build unix

package cache

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/weirgpu/weir/internal/fulldisk"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/plan"
)

// childOf names the test that a process of the test binary is started for, with its part as value.
const childOf = "WEIR_CACHE_TEST_PART"

// child is a process that runs the same test, where part returns its part.
func child(t *testing.T, part string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), childOf+"="+part)
	return cmd
}

// rowsModel writes a small model with a constant that is read in place and packed weights.
func rowsModel(t *testing.T, path string) {
	t.Helper()
	writeModel(t, path, parseWithWeights(t, `graph "rows" {
  opset "" 17
  input %i: int64[4]
  const %table: float32[64,64] = at 0
  const %w: float32[64,64] = at 0
  %x: float32[4,64] = Gather@13 "rows" (%table, %i) {axis=0}
  %y: float32[4,64] = MatMul@13 "product" (%x, %w)
  output %y
}
`), onnx.WriteOptions{})
}

// TestFullDisk starts a model where the disk takes less than the entry: outputs are right, one
// warning says so for all starts, and nothing is left behind. With room again the plan is kept.
func TestFullDisk(t *testing.T) {
	if fulldisk.Elsewhere(t) {
		return
	}
	path := filepath.Join(t.TempDir(), "model.onnx")
	rowsModel(t, path)
	c := newCache(t)
	o := plan.Options{Target: host}
	want, _ := start(t, c, path, o)
	info, err := os.Stat(c.only(t, planSuffix))
	if err != nil {
		t.Fatal(err)
	}
	for _, room := range []int64{0, 1, int64(headBytes), info.Size() / 2, info.Size() - 1} {
		if err := os.RemoveAll(c.dir); err != nil {
			t.Fatal(err)
		}
		full := *c
		full.seen = &seen{}
		log := full.warnings()
		more := fulldisk.Full(t, uint64(room))
		for range 2 {
			if got, cached := start(t, &full, path, o); cached || !bytes.Equal(got, want) {
				t.Errorf("room for %d bytes: from the cache: %v; right: %v", room, cached,
					bytes.Equal(got, want))
			}
		}
		more()
		if left := full.files(t, ""); len(left) > 0 || lines(log) != 1 {
			t.Errorf("room for %d bytes: files %v are left; log: %s", room, left, log)
		}
		for i := range 2 {
			if _, cached := start(t, &full, path, o); cached != (i > 0) {
				t.Errorf("with room again, start %d: from the cache: %v", i, cached)
			}
		}
	}
}

// TestProgramReplaced has a program's file replaced by another build while it runs. What it keeps
// is that of the build that runs.
func TestProgramReplaced(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the system does not show the file that runs")
	}
	if os.Getenv(childOf) == "" {
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := child(t, "replaced")
		cmd.Path = filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(cmd.Path, read(t, exe), 0o700); err != nil {
			t.Fatal(err)
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want := buildID(read(t, exe)[:64<<10])
	newer := filepath.Join(t.TempDir(), "newer")
	write(t, newer, []byte("another build"))
	if err := os.Rename(newer, exe); err != nil {
		t.Fatal(err)
	}
	if got, err := thisBuild(); got != want || want == "" || err != nil {
		t.Errorf("build %q, want %q; error %v", got, want, err)
	}
}

// TestTwoProcesses has two processes start a model many times at once, each of which removes the
// entry now and then so that it is written again: outputs are right, and none of them ever finds
// anything damaged.
func TestTwoProcesses(t *testing.T) {
	const rounds = 60
	if dir := os.Getenv(childOf); dir != "" {
		path := filepath.Join(dir, "model.onnx")
		want, _ := start(t, nil, path, plan.Options{Target: host})
		found := 0
		for i := range rounds {
			c := newCache(t)
			c.dir = filepath.Join(dir, "plans")
			log := c.warnings()
			got, cached := start(t, c, path, plan.Options{Target: host})
			if !bytes.Equal(got, want) || lines(log) > 0 {
				t.Errorf("round %d: right: %v; log: %s", i, bytes.Equal(got, want), log)
			}
			if cached {
				found++
			}
			if i%3 == 2 {
				for _, f := range c.files(t, planSuffix) {
					_ = os.Remove(f) // the other process may have done so
				}
			}
		}
		if found == 0 || found == rounds {
			t.Errorf("%d of %d plans came from the cache", found, rounds)
		}
		return
	}
	dir := t.TempDir()
	rowsModel(t, filepath.Join(dir, "model.onnx"))
	var outs [2]bytes.Buffer
	var cmds [2]*exec.Cmd
	for i := range cmds {
		cmds[i] = child(t, dir)
		cmds[i].Stdout, cmds[i].Stderr = &outs[i], &outs[i]
		if err := cmds[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, &outs[i])
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "plans", "*"+tempSuffix))
	if err != nil || len(left) > 0 {
		t.Errorf("files %v are left, error %v", left, err)
	}
}

// TestReplacedWhileOpened opens a file that is replaced again and again, as another process does
// that writes the same entry. That is nothing to refuse it for.
func TestReplacedWhileOpened(t *testing.T) {
	c := newCache(t)
	root, err := c.makeFolder()
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	replace := func() {
		write(t, filepath.Join(c.dir, "new"), []byte{1})
		if err := root.Rename("new", "entry"); err != nil {
			t.Error(err)
		}
	}
	replace()
	defer meanwhile(func(int) { replace() })()
	for range 500 {
		f, err := c.openTrusted(root, "entry")
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
}

// meanwhile calls f, with the number of the call, over and over until the function that it returns
// is called.
func meanwhile(f func(i int)) (end func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				f(i)
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
	}
}

// TestSwitchedLink opens a model whose external data is a link that leads to one file or another
// from one moment to the next. What the model is known by is what was mapped.
func TestSwitchedLink(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.onnx")
	link, spare := path+".data", filepath.Join(dir, "spare")
	var ids [2]fileID
	for i := range ids {
		g := parseWithWeights(t, `graph "sum" {
  opset "" 17
  input %x: float32[64,64]
  const %c: float32[64,64] = at 0
  %y: float32[64,64] = Add@14 "add" (%x, %c)
  output %y
}
`)
		g.Nodes[0].In[1].Const().Data[0] = byte(i)
		writeModel(t, path, g, onnx.WriteOptions{MaxInline: 1})
		data := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Rename(link, data); err != nil {
			t.Fatal(err)
		}
		var err error
		if ids[i], err = identityAt(data, filepath.Base(link)); err != nil {
			t.Fatal(err)
		}
	}
	lead := func(to int) {
		symlink(t, fmt.Sprint(to), spare)
		if err := os.Rename(spare, link); err != nil {
			t.Error(err)
		}
	}
	lead(0)
	c := newCache(t)
	m, err := c.Model(path)
	if err != nil {
		t.Fatal(err)
	}
	lead(1)
	if _, err := m.hash(); !errors.Is(err, ErrChanged) {
		t.Errorf("the content of another file than the mapped one was hashed: error %v", err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	defer meanwhile(func(i int) { lead(i % 2) })()
	for range 300 {
		m, err := c.Model(path)
		if err != nil {
			t.Fatal(err)
		}
		mapped := m.source.Graph.Nodes[0].In[1].Const().Data[0]
		if m.files[1] != ids[mapped] {
			t.Fatalf("file %d was mapped, the model is known by %+v", mapped, m.files[1])
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
