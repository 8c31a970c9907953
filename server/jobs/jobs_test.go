package jobs

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/audit"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/store"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/tensor/npy"
)

// place is a server with jobs.
type place struct {
	dir    string
	state  *store.Store
	server *server.Server
	jobs   *Jobs
}

// models are the sources of a server with the classifier of handwritten digits under some names.
func models(names ...string) (list []server.Source) {
	for _, name := range names {
		list = append(list, server.Source{Name: name, Version: 3,
			Open: func() (*weir.Model, error) { return weir.Load(digits.Model) }})
	}
	return list
}

// begin makes a server with jobs on a folder, which ends with the test unless end was called.
func begin(t testing.TB, dir string, o Options, sources ...server.Source) *place {
	t.Helper()
	return beginIn(t, dir, o, server.Options{}, sources...)
}

// beginIn is begin with a server of some options.
func beginIn(t testing.TB, dir string, o Options, of server.Options,
	sources ...server.Source) *place {
	t.Helper()
	p := &place{dir: dir}
	var err error
	if p.state, err = store.Open(t.Context(), dir, store.Options{}, audit.Room, auth.Room,
		Room); err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	of.Log, of.Batch = quiet, 1
	if p.server, err = server.New(of); err != nil {
		t.Fatal(err)
	}
	if err := p.server.LoadAll(t.Context(), sources); err != nil {
		t.Fatal(err)
	}
	o.Store, o.Server, o.Log = p.state, p.server, quiet
	if p.jobs, err = Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for pattern, h := range p.jobs.Routes() {
		p.server.Handle(pattern, h)
	}
	t.Cleanup(func() { p.end(t) })
	return p
}

// end ends the server as a drain does.
func (p *place) end(t testing.TB) {
	t.Helper()
	if p.jobs == nil {
		return
	}
	p.jobs.Close(context.Background())
	if err := errors.Join(p.server.Close(), p.state.Close()); err != nil {
		t.Error(err)
	}
	p.jobs = nil
}

// rows are n different pictures, as a batch.
func rows(n int) *tensor.Tensor {
	x := tensor.From(make([]float32, 64*n), n, 1, 8, 8)
	for i := range tensor.As[float32](x) {
		tensor.As[float32](x)[i] = float32((i*7+i/64)%17) / 16
	}
	return x
}

// packed is a file with arrays by name.
func packed(t testing.TB, arrays map[string]*tensor.Tensor) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, x := range arrays {
		w, err := z.Create(name + suffix)
		if err == nil {
			err = npy.Write(w, x)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// stored is a file with one array of one picture, not compressed, with some bytes behind it.
func stored(t testing.TB, more string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.CreateHeader(&zip.FileHeader{Name: "image" + suffix, Method: zip.Store})
	if err == nil {
		err = npy.Write(w, rows(1))
	}
	if err == nil {
		_, err = io.WriteString(w, more)
	}
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// pictures is a file with n rows for the classifier.
func pictures(t testing.TB, n int) []byte {
	return packed(t, map[string]*tensor.Tensor{"image": rows(n)})
}

// answer is what an endpoint said.
type answer struct {
	*http.Response
	body []byte
}

// ask sends a request; headers come in pairs.
func (p *place) ask(t testing.TB, method, path string, body []byte, headers ...string) answer {
	t.Helper()
	r := httptest.NewRequest(method, "http://localhost"+path, bytes.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	p.server.ServeHTTP(w, r)
	return answer{w.Result(), w.Body.Bytes()}
}

// job reads a job of an answer, which must have the status.
func (a answer) job(t testing.TB, status int) *Job {
	t.Helper()
	var j Job
	if err := json.Unmarshal(a.body, &j); err != nil || a.StatusCode != status {
		t.Fatalf("status %d, %s (%v), want status %d", a.StatusCode, a.body, err, status)
	}
	return &j
}

// until waits for a job to be as f says.
func (p *place) until(t testing.TB, id int64, f func(j *Job) bool) *Job {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		j, err := p.jobs.Get(context.Background(), id)
		if err != nil {
			t.Fatal(err)
		}
		if f(j) {
			return j
		}
		if time.Now().After(deadline) {
			t.Fatalf("job %d is %+v", id, j)
		}
		time.Sleep(time.Millisecond)
	}
}

// ended waits for a job to end in a state.
func (p *place) ended(t testing.TB, id int64, in State) *Job {
	t.Helper()
	j := p.until(t, id, func(j *Job) bool { return j.State.Ended() })
	if j.State != in {
		t.Fatalf("job %d is %s: %s; want %s", id, j.State, j.Reason, in)
	}
	return j
}

// result reads the arrays of a job's result.
func (p *place) result(t testing.TB, id int64) map[string]*tensor.Tensor {
	t.Helper()
	a := p.ask(t, "GET", fmt.Sprint("/v1/jobs/", id, "/result"), nil)
	if a.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %s", a.StatusCode, a.body)
	}
	if want := fmt.Sprintf("%q", store.DigestOf(a.body)); a.Header.Get("ETag") != want {
		t.Errorf("ETag %s, want %s", a.Header.Get("ETag"), want)
	}
	return unpacked(t, a.body)
}

func unpacked(t testing.TB, file []byte) map[string]*tensor.Tensor {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*tensor.Tensor{}
	for _, m := range z.File {
		f, err := m.Open()
		if err != nil {
			t.Fatal(err)
		}
		if all[strings.TrimSuffix(m.Name, suffix)], err = npy.Read(f); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// alone computes rows one by one with the model alone.
func alone(t testing.TB, x *tensor.Tensor) *tensor.Tensor {
	t.Helper()
	m, err := weir.Load(digits.Model)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var all []float32
	n := x.Shape[0]
	for i := range n {
		row := &tensor.Tensor{DType: x.DType, Shape: []int{1, 1, 8, 8},
			Data: x.Data[i*256 : (i+1)*256]}
		out, err := m.Run(t.Context(), weir.Inputs{"image": row})
		if err != nil {
			t.Fatal(err)
		}
		p, err := weir.Output[float32](out, "probabilities")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p...)
		out.Close()
	}
	return tensor.From(all, n, 10)
}

const digitsPath = "/v1/jobs?model=digits"

// TestBatch: the result has every row, in order, as the model computes it alone; nothing else is
// left on the disk.
func TestBatch(t *testing.T) {
	p := begin(t, t.TempDir(), Options{Part: time.Nanosecond}, models("digits")...)
	file := pictures(t, 100)
	j := p.ask(t, "POST", digitsPath+"&name=mine", file, "Idempotency-Key", "a").job(t, 201)
	if j.Rows != 100 || j.Name != "mine" || j.Version != "3" || j.Kind != "batch" {
		t.Errorf("made %+v", j)
	}
	j = p.ended(t, j.ID, Done)
	if got := p.result(t, j.ID)["probabilities"]; !tensor.Equal(got, alone(t, rows(100))) {
		t.Errorf("the result is %v", got)
	}
	if j.Done != 100 || j.Ended.IsZero() || j.Began.IsZero() || j.Reason != "" {
		t.Errorf("it is %+v", j)
	}
	p.left(t, j.Result)
	var l Lines
	a := p.ask(t, "GET", fmt.Sprint("/v1/jobs/", j.ID, "/log"), nil)
	if err := json.Unmarshal(a.body, &l); err != nil || len(l.Lines) != 3 ||
		l.Lines[2].Text != "done" {
		t.Errorf("the log is %s", a.body)
	}
	if a := p.ask(t, "DELETE", fmt.Sprint("/v1/jobs/", j.ID), nil); a.StatusCode != 200 {
		t.Errorf("remove: %s", a.body)
	}
	p.left(t)
}

// left holds which blobs are there. Those of a job that is done go just after that.
func (p *place) left(t testing.TB, want ...store.Digest) {
	t.Helper()
	slices.Sort(want)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		got := p.blobs(t)
		if slices.Equal(got, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("there are %d blobs, want %v", len(got), want)
		}
	}
}

// blobs are all that are there.
func (p *place) blobs(t testing.TB) (list []store.Digest) {
	t.Helper()
	if err := p.state.Blobs().Each(func(d store.Digest, _ int64) error {
		list = append(list, d)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestKeys: of a key there is one job, however often it is asked for.
func TestKeys(t *testing.T) {
	p := begin(t, t.TempDir(), Options{}, models("digits", "other")...)
	file := pictures(t, 3)
	if a := p.ask(t, "POST", digitsPath, file); a.StatusCode != 400 {
		t.Errorf("without a key: %d %s", a.StatusCode, a.body)
	}
	first := p.ask(t, "POST", digitsPath, file, "Idempotency-Key", "a").job(t, 201)
	again := p.ask(t, "POST", digitsPath, file, "Idempotency-Key", "a").job(t, 200)
	if again.ID != first.ID {
		t.Errorf("jobs %d and %d", first.ID, again.ID)
	}
	for path, body := range map[string][]byte{digitsPath: pictures(t, 4),
		"/v1/jobs?model=other": file, digitsPath + "&name=x": file,
		digitsPath + "&output=probabilities": file} {
		if a := p.ask(t, "POST", path, body, "Idempotency-Key", "a"); a.StatusCode != 422 {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
	}
	slow, to := io.Pipe()
	code := make(chan int)
	go func() {
		r := httptest.NewRequest("POST", "http://localhost"+digitsPath, slow)
		r.Header.Set("Idempotency-Key", "b")
		w := httptest.NewRecorder()
		p.server.ServeHTTP(w, r)
		code <- w.Code
	}()
	_, _ = to.Write(file[:10]) // it is under way
	if a := p.ask(t, "POST", digitsPath, file, "Idempotency-Key", "b"); a.StatusCode != 409 {
		t.Errorf("beside one under way: %d %s", a.StatusCode, a.body)
	}
	_, _ = to.Write(file[10:])
	_ = to.Close()
	if got := <-code; got != 201 {
		t.Errorf("the one under way: %d", got)
	}
	if n := p.count(t); n != 2 {
		t.Errorf("%d jobs", n)
	}
}

// count is how many jobs there are.
func (p *place) count(t testing.TB) (n int) {
	t.Helper()
	if err := p.state.Read(context.Background(), func(tx *sql.Tx) error {
		return tx.QueryRow("SELECT count(*) FROM jobs_jobs").Scan(&n)
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// digestOf is the header Content-Digest of a body.
func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

// TestUnpackedForNobody: a file is not unpacked on for a client that has gone.
func TestUnpackedForNobody(t *testing.T) {
	file := packed(t, map[string]*tensor.Tensor{"x": tensor.From(make([]float32, checkEvery), 4,
		checkEvery/4)})
	in, err := openInput(bytes.NewReader(file), int64(len(file)), []oip.TensorFields{{Name: "x",
		Datatype: "FP32", Shape: []int64{-1, checkEvery / 4}}})
	if err != nil {
		t.Fatal(err)
	}
	defer in.close()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := in.check(gone); !errors.Is(err, context.Canceled) || in.columns[0].rows.Left() != 4 {
		t.Errorf("%v, with %d rows left of 4", err, in.columns[0].rows.Left())
	}
	if err := in.check(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestUploads: what is no file for the model is refused with the reason, and leaves nothing.
func TestUploads(t *testing.T) {
	p := begin(t, t.TempDir(), Options{Input: 1 << 20}, models("digits")...)
	good := pictures(t, 5)
	flipped := stored(t, "")
	flipped[bytes.Index(flipped, []byte("NUMPY"))+200] ^= 1 // among the data
	torn := slices.Clone(good)
	torn[len(torn)/2] ^= 1
	for name, c := range map[string]struct {
		path    string
		body    []byte
		headers []string
		status  int
		says    string
	}{
		"no model":       {"/v1/jobs", good, nil, 400, "?model=NAME"},
		"unknown model":  {"/v1/jobs?model=no", good, nil, 404, "unknown model"},
		"version":        {digitsPath + "&version=9", good, nil, 404, "no version"},
		"query":          {digitsPath + "&x=1", good, nil, 400, "not known"},
		"output":         {digitsPath + "&output=x", good, nil, 400, "no output"},
		"not a zip":      {digitsPath, []byte("hello"), nil, 400, "no .npz"},
		"empty":          {digitsPath, nil, nil, 400, "no .npz"},
		"cut off":        {digitsPath, good[:len(good)-20], nil, 400, "no .npz"},
		"a flipped bit":  {digitsPath, torn, nil, 400, "input image"},
		"not compressed": {digitsPath, flipped, nil, 400, "checksum"},
		"longer":         {digitsPath, stored(t, "more"), nil, 400, "goes on after its 1 rows"},
		"digest": {digitsPath, torn, []string{"Content-Digest", digestOf(good)}, 400,
			"changed on its way"},
		"bad digest": {digitsPath, good, []string{"Content-Digest", "sha-256=:x:"}, 400,
			"sha-256=:BASE64:"},
		"other input": {digitsPath, packed(t, map[string]*tensor.Tensor{"x": rows(1)}), nil, 400,
			"no array for input image"},
		"one more": {digitsPath, packed(t, map[string]*tensor.Tensor{"image": rows(1),
			"x": rows(1)}), nil, 400, "no input"},
		"type": {digitsPath, packed(t, map[string]*tensor.Tensor{
			"image": tensor.From(make([]float64, 64), 1, 1, 8, 8)}), nil, 400, "float64"},
		"shape": {digitsPath, packed(t, map[string]*tensor.Tensor{
			"image": tensor.From(make([]float32, 63), 1, 1, 7, 9)}), nil, 400, "the model takes"},
		"rank": {digitsPath, packed(t, map[string]*tensor.Tensor{
			"image": tensor.From(make([]float32, 64), 8, 8)}), nil, 400, "the model takes"},
		"no rows": {digitsPath, packed(t, map[string]*tensor.Tensor{
			"image": tensor.From([]float32{}, 0, 1, 8, 8)}), nil, 400, "no rows"},
		"bomb": {digitsPath, packed(t, map[string]*tensor.Tensor{
			"image": tensor.From(make([]float32, 64*5000), 5000, 1, 8, 8)}), nil, 413,
			"at most 1048576"},
	} {
		a := p.ask(t, "POST", c.path, c.body, append(c.headers, "Idempotency-Key", name)...)
		if a.StatusCode != c.status || !strings.Contains(string(a.body), c.says) {
			t.Errorf("%s: %d %s; want %d and %q", name, a.StatusCode, a.body, c.status, c.says)
		}
	}
	p.left(t)
	if n := p.count(t); n > 0 {
		t.Errorf("%d jobs are left", n)
	}
	files, err := filepath.Glob(filepath.Join(p.dir, "blobs", "part-*"))
	if len(files) > 0 || err != nil {
		t.Errorf("left: %v, %v", files, err)
	}
}

// TestNoState: a server without a state says what to do.
func TestNoState(t *testing.T) {
	var none *Jobs
	for pattern, h := range none.Routes() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/v1/jobs", nil))
		if w.Code != oip.Unsupported.Status() || !strings.Contains(w.Body.String(), "--state") {
			t.Errorf("%s: %d %s", pattern, w.Code, w.Body)
		}
	}
}
