package source

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirgpu/weir/server/store"
)

// lies returns the files of a folder of models, without what is the mirror's own.
func lies(t *testing.T, folder string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == recordName || d.Name() == lockName {
			return err
		}
		text, err := os.ReadFile(path)
		at, _ := filepath.Rel(folder, path)
		found[filepath.ToSlash(at)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// mirror opens one of a bucket.
func mirror(t *testing.T, folder string, from ...Remote) *Mirror {
	t.Helper()
	m, err := Open(folder, from, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// TestMirror: a folder becomes what a place has, model by model or all at once; what has not
// changed is not brought again, and a file that is being served is never written.
func TestMirror(t *testing.T) {
	b := &bucket{files: files()}
	folder := t.TempDir()
	m := mirror(t, folder, shelf(t, b))
	if err := m.Bring(t.Context(), "b+c"); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"b+c/1/model.onnx": "three"}
	if got := lies(t, folder); !maps.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if err := m.Bring(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	maps.Copy(want, map[string]string{"a/1/model.onnx": "one", "a/2/model.onnx": "two",
		"a/config.pbtxt": "max_batch_size: 4"})
	if got := lies(t, folder); !maps.Equal(got, want) {
		t.Errorf("%q", got)
	}
	served, err := os.Open(filepath.Join(folder, "a/2/model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	defer served.Close()
	before, err := os.Stat(filepath.Join(folder, "a/1/model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]int{}
	b.before = func(_ http.ResponseWriter, key string) bool { asked[key]++; return false }
	b.files["our models/a/2/model.onnx"] = "TWO"
	delete(b.files, "our models/b+c/1/model.onnx")
	if err := m.Bring(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	want["a/2/model.onnx"] = "TWO"
	delete(want, "b+c/1/model.onnx")
	if got := lies(t, folder); !maps.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if len(asked) != 1 || asked["our models/a/2/model.onnx"] != 1 {
		t.Errorf("asked for %v", asked)
	}
	after, err := os.Stat(filepath.Join(folder, "a/1/model.onnx"))
	if err != nil || !after.ModTime().Equal(before.ModTime()) || !os.SameFile(before, after) {
		t.Errorf("a file that has not changed is another: %v", err)
	}
	var text [4]byte
	if n, _ := served.ReadAt(text[:], 0); string(text[:n]) != "two" {
		t.Errorf("the file that is served became %q", text[:n])
	}
	if err := m.Bring(t.Context(), "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := m.Bring(t.Context(), "../a"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestBroughtWholeOrNot: where a file of a model fails, the model stays as it was.
func TestBroughtWholeOrNot(t *testing.T) {
	b := &bucket{files: files()}
	folder := t.TempDir()
	m := mirror(t, folder, shelf(t, b))
	if err := m.Bring(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	was := lies(t, folder)
	b.files["our models/a/1/model.onnx"] = "new one"
	b.files["our models/a/config.pbtxt"] = "new config"
	b.before = func(w http.ResponseWriter, key string) bool {
		if strings.HasSuffix(key, "config.pbtxt") {
			http.Error(w, "", http.StatusTeapot)
			return true
		}
		return false
	}
	if err := m.Bring(t.Context(), "a"); err == nil {
		t.Error("no word of a file that did not come")
	}
	if err := m.Bring(t.Context(), ""); err != nil {
		t.Errorf("models that are there are not served: %v", err)
	}
	if got := lies(t, folder); !maps.Equal(got, was) {
		t.Errorf("%q", got)
	}
	b.files["our models/new/config.pbtxt"] = "x"
	if err := m.Bring(t.Context(), ""); err == nil {
		t.Error("no word of a model that never came")
	}
}

// TestPlaceThatDoesNotAnswer: models that were brought before are served without their place, and
// none are dropped; without any, the reason is told.
func TestPlaceThatDoesNotAnswer(t *testing.T) {
	b := &bucket{files: files()}
	folder := t.TempDir()
	r := shelf(t, b)
	m := mirror(t, folder, r)
	if err := m.Bring(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	was := lies(t, folder)
	r.(*s3).base.Path = "/gone/"
	if err := m.Bring(t.Context(), ""); err != nil {
		t.Error(err)
	}
	if got := lies(t, folder); !maps.Equal(got, was) {
		t.Errorf("%q", got)
	}
	if err := m.Bring(t.Context(), "a"); err == nil {
		t.Error("a model was said to be brought")
	}
	if err := mirror(t, t.TempDir(), r).Bring(t.Context(), ""); err == nil {
		t.Error("no word of a place that does not answer")
	}
}

// TestTwoPlaces: models of one name in two places are an error, and so is a folder that another
// has.
func TestTwoPlaces(t *testing.T) {
	folder := t.TempDir()
	g := newShelves()
	g.push("latest", map[string]string{"model.onnx": "one"}, nil)
	b := &bucket{files: map[string]string{"our models/other/1/model.onnx": "two"}}
	m := mirror(t, folder, shelf(t, b), board(t, g, ""))
	if err := m.Bring(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if got := lies(t, folder); !maps.Equal(got, map[string]string{"net/1/model.onnx": "one",
		"other/1/model.onnx": "two"}) {
		t.Errorf("%q", got)
	}
	b.files["our models/net/1/model.onnx"] = "three"
	for _, name := range []string{"", "net"} {
		if err := m.Bring(t.Context(), name); !errors.Is(err, ErrLayout) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := Open(folder, nil, Options{}); !errors.Is(err, ErrTaken) {
		t.Error(err)
	}
}

// TestEndedMeanwhile: what a process left that ended while it brought a model is mended: the model
// is the old one or the new one, and brought again.
func TestEndedMeanwhile(t *testing.T) {
	b := &bucket{files: map[string]string{"our models/a/1/model.onnx": "one"}}
	for name, left := range map[string][]string{
		"before":        {"a/1/model.onnx=old", ".new-a/1/model.onnx=on"},
		"between":       {".old-a/1/model.onnx=old", ".new-a/1/model.onnx=one"},
		"after":         {".old-a/1/model.onnx=old", "a/1/model.onnx=old"},
		"of a name":     {".old-a/1/model.onnx=old", ".old-c/1/model.onnx=x", ".new-b/x=y"},
		"record alone":  {"a/" + recordName + `={"from":"s3://shelf/our models","files":{"1/model.onnx":"x"}}`},
		"record broken": {"a/" + recordName + "={", "a/1/model.onnx=old"},
	} {
		folder := t.TempDir()
		for _, file := range left {
			path, text, _ := strings.Cut(file, "=")
			path = filepath.Join(folder, path)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700),
				os.WriteFile(path, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		m := mirror(t, folder, shelf(t, b))
		mended := lies(t, folder)
		if want := "old"; !strings.HasPrefix(name, "record") && mended["a/1/model.onnx"] != want {
			t.Errorf("%s: %q", name, mended)
		}
		if err := m.Bring(t.Context(), ""); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := lies(t, folder); !maps.Equal(got, map[string]string{"a/1/model.onnx": "one"}) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestLocal: paths that would lie elsewhere, or be the mirror's own, are none of a model.
func TestLocal(t *testing.T) {
	for path, want := range map[string]bool{"1/model.onnx": true, "a b/ü.txt": true, "": false,
		"/etc": false, "..": false, "a/../b": false, "a//b": false, "./a": false,
		".origin.json": false,
		"a/.b":         false, "a\\b": false, "c:d": false, "a\x00b": false, "a/": false,
		strings.Repeat("a", 2000): false} {
		if local(path) != want {
			t.Errorf("%q: %v", path, !want)
		}
	}
}

// TestOneIsAlwaysThere: while a model is replaced, whoever looks finds the old one or the new one.
func TestOneIsAlwaysThere(t *testing.T) {
	m := mirror(t, t.TempDir())
	at := filepath.Join(m.folder, "a")
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := exchange(at, at); errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	end := make(chan struct{})
	missed := make(chan int)
	go func() {
		n := 0
		for {
			if _, err := os.Lstat(at); err != nil {
				n++
			}
			select {
			case <-end:
				missed <- n
				return
			default:
			}
		}
	}()
	for range 2000 {
		if err := errors.Join(os.Mkdir(filepath.Join(m.folder, newPrefix+"a"), 0o700),
			m.swap("a")); err != nil {
			t.Fatal(err)
		}
	}
	close(end)
	if n := <-missed; n > 0 {
		t.Errorf("it was not there %d times", n)
	}
}

// TestOthersCome: models that do not come keep no others from coming, nor from being dropped.
func TestOthersCome(t *testing.T) {
	b := &bucket{files: files()}
	folder := t.TempDir()
	m := mirror(t, folder, shelf(t, b))
	if err := m.Bring(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	b.files["our models/aa/.hidden"] = "x"
	b.files["our models/ab/1"] = "x"
	b.files["our models/ab/1/model.onnx"] = "x"
	b.files["our models/z/1/model.onnx"] = "new"
	delete(b.files, "our models/a/1/model.onnx")
	delete(b.files, "our models/b+c/1/model.onnx")
	err := m.Bring(t.Context(), "")
	if !errors.Is(err, ErrSome) || !strings.Contains(err.Error(), "model aa") ||
		!strings.Contains(err.Error(), "model ab") {
		t.Error(err)
	}
	if got := lies(t, folder); !maps.Equal(got, map[string]string{"a/2/model.onnx": "two",
		"a/config.pbtxt": "max_batch_size: 4", "z/1/model.onnx": "new"}) {
		t.Errorf("%q", got)
	}
}

// TestSlowModel: a model that comes slowly keeps nobody from another; who waits for it goes away
// when it likes, and who brings it too; a look at all models takes none away that came meanwhile.
func TestSlowModel(t *testing.T) {
	b := &bucket{files: files()}
	folder := t.TempDir()
	m := mirror(t, folder, shelf(t, b))
	entered, leave := make(chan string), make(chan bool)
	b.before = func(_ http.ResponseWriter, key string) bool {
		if key == "our models/a/1/model.onnx" {
			b.mu.Unlock()
			entered <- key
			<-leave
			b.mu.Lock()
		}
		return false
	}
	defer close(leave)
	slow, cancel := context.WithCancel(t.Context())
	first := make(chan error)
	go func() { first <- m.Bring(slow, "a") }()
	<-entered
	if err := m.Bring(t.Context(), "b+c"); err != nil {
		t.Errorf("another model: %v", err)
	}
	gone, end := context.WithCancelCause(t.Context())
	second := make(chan error)
	go func() { second <- m.Bring(gone, "a") }()
	end(errors.New("gone"))
	if err := <-second; err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("who waits: %v", err)
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("who brings it: %v", err)
	}
	if len(m.turns.of) != 0 {
		t.Errorf("turns of %d models are left", len(m.turns.of))
	}
	round := m.turns.round()
	if err := m.Bring(t.Context(), "b+c"); err != nil {
		t.Fatal(err)
	}
	if err := m.drop(t.Context(), map[string]Remote{}, round); err != nil || !m.has("b+c") {
		t.Errorf("what came meanwhile is gone (%v)", err)
	}
	if err := m.drop(t.Context(), map[string]Remote{}, m.turns.round()); err != nil ||
		m.has("b+c") {
		t.Errorf("what no place has stays (%v)", err)
	}
}

// TestModelWithoutRoom: a model that the disk has no room for is not begun.
func TestModelWithoutRoom(t *testing.T) {
	folder := t.TempDir()
	m := mirror(t, folder, huge{})
	if err := m.Bring(t.Context(), "a"); !errors.Is(err, store.ErrFull) {
		t.Errorf("%v", err)
	}
	if got := lies(t, folder); len(got) != 0 {
		t.Errorf("left is %q", got)
	}
}

// huge is a place with a model that no disk holds.
type huge struct{ Remote }

func (huge) String() string                          { return "s3://huge" }
func (huge) Names(context.Context) ([]string, error) { return []string{"a"}, nil }
func (huge) Files(context.Context, string) ([]File, error) {
	return []File{{Path: "1/model.onnx", Size: 1 << 62, Mark: "x"},
		{Path: "2/model.onnx", Size: 1 << 62, Mark: "y"}}, nil
}
