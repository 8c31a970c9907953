package repo

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestPush: a version is put into the folder whole, under its number or the next one, and what
// fails leaves nothing.
func TestPush(t *testing.T) {
	folder := lay(t, "m/3/model.onnx", "named/1/x.onnx",
		`named/config.pbtxt=default_model_filename: "x.onnx"`)
	sum := sha256.Sum256([]byte("content"))
	for _, c := range []struct {
		name   string
		number int64
		digest []byte
		path   string
		err    error
	}{
		{"m", 0, sum[:], "m/4/model.onnx", nil},
		{"m", 9, nil, "m/9/model.onnx", nil},
		{"m", 0, nil, "m/10/model.onnx", nil},
		{"new", 0, nil, "new/1/model.onnx", nil},
		{"named", 0, nil, "named/2/x.onnx", nil},
		{"m", 9, nil, "", fs.ErrExist},
		{"m", 0, make([]byte, 32), "", ErrDigest},
		{"../m", 0, nil, "", ErrName},
		{"m", -1, nil, "", ErrName},
		{"last", math.MaxInt64, nil, "last/9223372036854775807/model.onnx", nil},
		{"last", 0, nil, "", fs.ErrExist},
		{".m", 1, nil, "", ErrName},
	} {
		p, err := Push(folder, c.name, c.number, strings.NewReader("content"), 7, c.digest)
		if c.err != nil {
			if !errors.Is(err, c.err) {
				t.Errorf("%s %d: %v, want %v", c.name, c.number, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s %d: %v", c.name, c.number, err)
			continue
		}
		b, err := os.ReadFile(filepath.Join(folder, c.path))
		if string(b) != "content" || err != nil || p.Bytes != 7 || p.SHA256 != sum ||
			p.Version.Path != filepath.Join(folder, c.path) {
			t.Errorf("%s: %q (%v), %+v", c.path, b, err, p)
		}
	}
	broken := io.MultiReader(strings.NewReader("con"), failing{})
	if _, err := Push(folder, "m", 0, broken, 7, nil); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a body that breaks off: %v", err)
	}
	if _, err := Push(folder, "m", 0, strings.NewReader("contents"), 7, nil); !errors.Is(err,
		ErrLarge) {
		t.Errorf("a body that is too large: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(folder, "*", ".push-*"))
	if len(left) > 0 || err != nil {
		t.Errorf("left: %v (%v)", left, err)
	}
	if m, err := Find(folder, "m", nil); err != nil || numbers(m) != "10" {
		t.Errorf("found %s (%v)", numbers(m), err)
	}
}

// failing breaks off.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestPushTogether: versions that are pushed at once have numbers of their own.
func TestPushTogether(t *testing.T) {
	folder := t.TempDir()
	var wait sync.WaitGroup
	var seen sync.Map
	for range 8 {
		wait.Go(func() {
			p, err := Push(folder, "m", 0, strings.NewReader("x"), 1, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if _, twice := seen.LoadOrStore(p.Version.Number, true); twice ||
				p.Version.Number < 1 || p.Version.Number > 8 {
				t.Errorf("version %d", p.Version.Number)
			}
		})
	}
	wait.Wait()
}

// TestPushLeftOver: what a process left that ended amid a push is removed by the next one, and what
// is being pushed meanwhile is not; where the disk would be full nothing is taken.
func TestPushLeftOver(t *testing.T) {
	folder := lay(t, "[m]*/.push-1/model.onnx", "[m]*/.push-2/model.onnx", "[m]*/1/model.onnx")
	age := func(want int) {
		pushed, _ := filepath.Glob(filepath.Join(folder, `\[m\]\*`, ".push-*"))
		if len(pushed) != want {
			t.Errorf("%v are left or under way, want %d", pushed, want)
		}
		for _, p := range pushed {
			if err := os.Chtimes(p, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
	}
	age(2)
	begun, go1 := make(chan bool), make(chan bool)
	from, to := io.Pipe()
	done := make(chan error)
	go func() {
		_, err := Push(folder, "[m]*", 0, from, 100, nil)
		done <- err
	}()
	go func() {
		_, _ = to.Write([]byte("first"))
		close(begun)
		<-go1
		to.Close()
	}()
	<-begun
	age(1)
	if _, err := Push(folder, "[m]*", 7, strings.NewReader("x"), 1, nil); err != nil {
		t.Error(err)
	}
	close(go1)
	if err := <-done; err != nil {
		t.Errorf("a push that another one found under way: %v", err)
	}
	entries, err := os.ReadDir(filepath.Join(folder, "[m]*"))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "1 7 8" && got != "1 2 7" || err != nil {
		t.Errorf("there are %s (%v)", got, err)
	}
}
