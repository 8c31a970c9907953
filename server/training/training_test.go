package training_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/training"
	"github.com/weirgpu/weir/train"
	"github.com/weirgpu/weir/train/checkpoint"
	"github.com/weirgpu/weir/train/recipe"
)

// TestMain has trainings that wait for memory, or for room on the disk, look for it often.
func TestMain(m *testing.M) {
	training.LookAgain(10 * time.Millisecond)
	os.Exit(m.Run())
}

// quiet says nothing.
var quiet = slog.New(slog.DiscardHandler)

// folder has a recipe of the digits example with so many updates.
func folder(t *testing.T, updates int) (path string) {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile("../../examples/digits/recipe.yaml")
	if err != nil {
		t.Fatal(err)
	}
	from, err := filepath.Abs("../../examples/digits")
	if err != nil {
		t.Fatal(err)
	}
	short := strings.NewReplacer("digits.onnx\nstart", from+"/digits.onnx\nstart",
		"images.npy", from+"/images.npy", "labels.npy", from+"/labels.npy",
		"heldout.npy", from+"/heldout.npy", "epochs: 10", fmt.Sprint("steps: ", updates),
		"to: run", fmt.Sprint("to: run, steps: ", each)).Replace(string(text))
	path = filepath.Join(dir, "recipe.yaml")
	if err := os.WriteFile(path, []byte(short), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// alone is the digest of a recipe of folder's that is followed without a server. It is computed
// once: the environment has it, for a test that is in a process of its own too.
func alone(t *testing.T, path string) string {
	t.Helper()
	r, err := recipe.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	kept := fmt.Sprint("WEIR_TEST_DIGEST_", r.Steps)
	if known := os.Getenv(kept); known != "" {
		return known
	}
	r.Checkpoint.To = t.TempDir()
	on, err := machine.Open("cpu:0", machine.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	run, err := train.Open(t.Context(), r, train.Options{Machine: on})
	if err != nil {
		t.Fatal(err)
	}
	res, err := run.Train(t.Context())
	if err = errors.Join(err, run.Close(), on.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.Setenv(kept, res.Digest); err != nil {
		t.Fatal(err)
	}
	return res.Digest
}

// place is a server that trains.
type place struct {
	*server.Server
	trained *training.Trainings
}

// begin makes a server of the digits classifier that trains by a recipe.
func begin(t *testing.T, o server.Options, recipes ...string) *place {
	t.Helper()
	o.Log, o.Batch = quiet, 1
	o.Host.Threads = 2
	s, err := server.New(o)
	if err != nil {
		t.Fatal(err)
	}
	p := &place{Server: s}
	if err := s.LoadAll(t.Context(), []server.Source{digitsOf("digits")}); err != nil {
		t.Fatal(err)
	}
	if p.trained, err = training.Open(training.Options{Server: s, Recipes: recipes,
		Log: quiet}); err != nil {
		t.Fatal(err)
	}
	for pattern, h := range p.trained.Routes() {
		s.Handle(pattern, h)
	}
	t.Cleanup(func() { p.end(t) })
	return p
}

func digitsOf(name string) server.Source {
	return server.Source{Name: name, Version: 1,
		Open: func() (*weir.Model, error) { return weir.Load(digits.Model) }}
}

func (p *place) end(t *testing.T) {
	t.Helper()
	if p.trained == nil {
		return
	}
	p.trained.Close(t.Context())
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	p.trained = nil
}

// ask sends a request, and returns what was answered.
func (p *place) ask(t *testing.T, method, path, body string, to any) (code int) {
	t.Helper()
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest(method, "http://localhost"+path,
		strings.NewReader(body)))
	b, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	if to != nil && w.Code == http.StatusOK {
		if err := json.Unmarshal(b, to); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
	}
	if w.Code >= 400 {
		t.Logf("%s %s: %d %s", method, path, w.Code, bytes.TrimSpace(b))
	}
	return w.Code
}

// until reads the events of a training until one that is as wanted. A stream lives for five
// minutes, which a slow machine may need more of.
func (p *place) until(t *testing.T, name string, wanted func(training.State) bool) training.State {
	t.Helper()
	on := httptest.NewUnstartedServer(p.Server)
	on.Config.ConnContext = auth.Connected
	on.Start()
	defer on.Close()
	for {
		began := time.Now()
		if s, ok := read(t, on, "/v1/train/"+name+"/events", wanted); ok {
			return s
		}
		if d := time.Since(began); d < 4*time.Minute {
			t.Fatalf("the events ended after %v", d)
		}
	}
}

// read reads one stream of events until one that is as wanted, or to its end.
func read(t *testing.T, on *httptest.Server, path string, wanted func(training.State) bool) (
	s training.State, ok bool) {
	t.Helper()
	a, err := on.Client().Get(on.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	lines := bufio.NewReader(a.Body)
	for {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return s, false
		}
		if err != nil {
			t.Fatal(err)
		}
		text, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		s = training.State{}
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		if wanted(s) {
			return s, true
		}
		if s.Phase == training.Failed || s.Phase == training.Done {
			t.Fatalf("%+v", s)
		}
	}
}

func in(p training.Phase) func(training.State) bool {
	return func(s training.State) bool { return s.Phase == p }
}

// infer asks the model that is served for an answer.
func (p *place) infer(t *testing.T) {
	t.Helper()
	images, err := digits.Images()
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(map[string]any{"inputs": []any{map[string]any{"name": "image",
		"datatype": "FP32", "shape": []int{1, 1, 8, 8}, "data": digits.Input(images[0])}}})
	if err != nil {
		t.Fatal(err)
	}
	if code := p.ask(t, "POST", "/v2/models/digits/infer", string(b), nil); code != 200 {
		t.Errorf("a request beside the training: %d", code)
	}
}

// TestBeside trains beside a model that is served: paused, stopped, tried, with other terms, and
// through an end of the server, it ends with the digest of a run that had the device to itself.
func TestBeside(t *testing.T) {
	path := folder(t, whole)
	name := filepath.Base(filepath.Dir(path))
	want := alone(t, path)
	p := begin(t, server.Options{}, path)
	url := "/v1/train/" + name
	began := func(s training.State) bool { return s.Update >= 20 }
	p.until(t, name, began)
	p.infer(t)

	var s training.State
	if code := p.ask(t, "POST", url+"/pause", "", &s); code != 200 || s.Phase != training.Paused {
		t.Fatalf("paused: %d, %+v", code, s)
	}
	at := s.Update
	p.infer(t)
	var got training.Scores
	if code := p.ask(t, "POST", url+"/try", sample(t), &got); code != 200 ||
		len(got.Scores) != 10 || got.Update != at {
		t.Errorf("tried: %d, %+v, want 10 scores after update %d", code, got, at)
	}
	for _, bad := range []string{`{"inputs":{"image":[1,2]}}`, `{"inputs":{"x":[1]}}`, `{`, `[]`,
		`{"inputs":{"image":[` + strings.Repeat("1e300,-1e300,", 31) + `1e300,0]}}`} {
		if code := p.ask(t, "POST", url+"/try", bad, nil); code != 400 {
			t.Errorf("tried %s: %d", bad, code)
		}
	}
	if code := p.ask(t, "POST", url+"/share", `{"memory_bytes":1000}`, nil); code != 400 {
		t.Errorf("a cap below its need: %d", code)
	}
	if code := p.ask(t, "POST", url+"/share", `{"compute":0.002}`, nil); code != 200 {
		t.Errorf("another weight: %d", code)
	}
	if code := p.ask(t, "GET", url, "", &s); code != 200 || s.Update != at || s.MemoryBytes == 0 {
		t.Errorf("while it is paused: %d, %+v, want update %d", code, s, at)
	}
	if code := p.ask(t, "POST", url+"/stop", "", nil); code != 200 {
		t.Errorf("stopped: %d", code)
	}
	if s := p.until(t, name, in(training.Stopped)); s.MemoryBytes != 0 || s.Update != at {
		t.Errorf("stopped: %+v", s)
	}
	if code := p.ask(t, "POST", url+"/try", sample(t), nil); code != 409 {
		t.Errorf("tried without memory: %d", code)
	}
	if code := p.ask(t, "POST", url+"/continue", "", nil); code != 200 {
		t.Errorf("continued: %d", code)
	}
	p.until(t, name, func(s training.State) bool {
		if s.Update < at {
			t.Fatalf("stopped after update %d, it goes on after %d", at, s.Update)
		}
		return s.Update > at
	})
	p.end(t)

	again := begin(t, server.Options{}, path) // as in another process
	s = again.until(t, name, in(training.Done))
	if s.Digest != want || s.Update != whole || s.Model == "" || s.DeviceS <= 0 ||
		s.Metric < least {
		t.Errorf("%+v, want digest %s", s, want)
	}
	if code := again.ask(t, "POST", url+"/pause", "", nil); code != 409 {
		t.Errorf("paused after its end: %d", code)
	}
	var l training.List
	if code := again.ask(t, "GET", "/v1/train", "", &l); code != 200 || len(l.Trainings) != 1 {
		t.Errorf("%d, %+v", code, l)
	}
	if code := again.ask(t, "GET", "/v1/train/none", "", nil); code != 404 {
		t.Errorf("another name: %d", code)
	}
}

func sample(t *testing.T) string {
	t.Helper()
	images, err := digits.Images()
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(training.Sample{Inputs: map[string][]float64{
		"image": append([]float64{}, floats(digits.Input(images[0]))...)}})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func floats[T ~float32](v []T) (out []float64) {
	for _, x := range v {
		out = append(out, float64(x)*16)
	}
	return out
}

// TestRecalled: the memory of a training goes to a model that is loaded, and the training goes on
// from its checkpoint once that is gone, to the same digest.
func TestRecalled(t *testing.T) {
	path := folder(t, whole)
	name := filepath.Base(filepath.Dir(path))
	want := alone(t, path)
	before := begin(t, server.Options{})
	model, need := before.Status().Promised, needs(t, before, path)
	before.end(t)
	p := begin(t, server.Options{Host: weir.HostOptions{Memory: model + need}}, path)
	at := p.until(t, name, in(training.Running)).Update
	if err := p.LoadAll(t.Context(), []server.Source{digitsOf("more")}); err != nil {
		t.Fatal(err)
	}
	s := p.until(t, name, in(training.Waiting))
	if s.MemoryBytes != 0 || !strings.Contains(s.Reason, "memory") {
		t.Errorf("after update %d: %+v", at, s)
	}
	p.infer(t)
	if err := p.UnloadModel(t.Context(), "more", nil); err != nil {
		t.Fatal(err)
	}
	if s := p.until(t, name, in(training.Done)); s.Digest != want {
		t.Errorf("digest %s, want %s", s.Digest, want)
	}
}

// needs is the memory that a recipe takes.
func needs(t *testing.T, p *place, path string) weir.Bytes {
	t.Helper()
	r, err := recipe.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	ready, err := train.Prepare(t.Context(), r, p.Machine())
	if err != nil {
		t.Fatal(err)
	}
	if err := ready.Close(); err != nil {
		t.Error(err)
	}
	return weir.Bytes(ready.Bytes())
}

// TestRefuses: recipes that cannot go on are refused.
func TestRefuses(t *testing.T) {
	path := folder(t, 10)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, fmt.Append(nil, "checkpoint: {to: run, steps: ", each, "}"), nil, 1)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := training.Open(training.Options{Recipes: []string{path}}); !errors.Is(err,
		recipe.ErrRecipe) {
		t.Errorf("%v", err)
	}
}

// TestLate: who waits no longer for a training when the server ends does not wait for what takes
// its time, and the next server goes on from the newest checkpoint, to the same digest.
func TestLate(t *testing.T) {
	path := folder(t, whole)
	name := filepath.Base(filepath.Dir(path))
	p := begin(t, server.Options{}, path)
	p.until(t, name, func(s training.State) bool { return s.Update >= each*6/5 })
	done, cancel := context.WithCancel(t.Context())
	cancel()
	p.trained.Close(done)
	s := p.trained.List()[0]
	if s.Phase != training.Waiting || !strings.Contains(s.Reason, "are lost") &&
		!strings.Contains(s.Reason, "waits no longer") {
		t.Errorf("ended late: %+v", s)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	p.trained = nil
	files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "run", "*.safetensors"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no checkpoints: %v", err)
	}
	for _, file := range files {
		var at int
		if _, err := fmt.Sscanf(filepath.Base(file), "step-%d.safetensors", &at); err != nil ||
			at%each != 0 {
			t.Errorf("%s was written after nobody waited for it", file)
		}
	}
	next := begin(t, server.Options{}, path)
	if s := next.until(t, name, in(training.Done)); s.Digest != alone(t, path) {
		t.Errorf("the digest is %s", s.Digest)
	}
}

// TestLateWithoutADevice: a training that waits for the device does not hold up the end of the
// server either.
func TestLateWithoutADevice(t *testing.T) {
	path := folder(t, 3000)
	name := filepath.Base(filepath.Dir(path))
	p := begin(t, server.Options{}, path)
	p.until(t, name, func(s training.State) bool { return s.Update >= 1 })
	w, err := p.Enter("holder", 1, weir.Share{})
	if err != nil {
		t.Fatal(err)
	}
	holds, leave, left := make(chan bool), make(chan bool), make(chan error)
	go func() {
		left <- w.Do(t.Context(), func(device.Gate) error {
			close(holds)
			<-leave
			return nil
		})
	}()
	<-holds
	done, cancel := context.WithCancel(t.Context())
	cancel()
	closed := make(chan bool)
	go func() {
		p.trained.Close(done)
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Error("it waits for the device")
	}
	close(leave)
	<-closed
	if err := <-left; err != nil {
		t.Error(err)
	}
	w.Close()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	p.trained = nil
}

// TestFolderTaken: a training whose folder another run has, such as one of a server that is about
// to end, waits for it without memory, and says so.
func TestFolderTaken(t *testing.T) {
	path := folder(t, 50)
	name := filepath.Base(filepath.Dir(path))
	lock, err := checkpoint.Folder{Path: filepath.Join(filepath.Dir(path), "run")}.Lock()
	if err != nil {
		t.Fatal(err)
	}
	p := begin(t, server.Options{}, path)
	s := p.until(t, name, func(s training.State) bool { return s.Reason != "" })
	if s.Phase != training.Waiting || s.MemoryBytes != 0 ||
		!strings.Contains(s.Reason, "another run keeps its checkpoints there") {
		t.Errorf("while another has its folder: %+v", s)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	p.until(t, name, in(training.Done))
}
