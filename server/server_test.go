package server

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/op"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/repo"
	"github.com/weirgpu/weir/tensor"
)

// digitsSource is the classifier of handwritten digits.
func digitsSource() Source {
	return Source{Name: "digits", Version: 3, Open: func() (*weir.Model, error) {
		return weir.Load(digits.Model)
	}}
}

// begin makes a server with the sources that ends with the test.
func begin(t *testing.T, o Options, sources ...Source) *Server {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Batch == 0 {
		o.Batch = 1 // what is measured decides nothing
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.LoadAll(t.Context(), sources); err != nil {
		t.Fatal(err)
	}
	return s
}

// ask sends a request; headers come in pairs.
func ask(s http.Handler, method, path string, body []byte, headers ...string) *http.Response {
	r := httptest.NewRequest(method, "http://localhost"+path, bytes.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

// all is the body of an answer.
func all(t *testing.T, r *http.Response) []byte {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// picture is a batch of pictures as the classifier takes them, as floats and as bytes.
func picture(t *testing.T, n int) ([]float32, []byte) {
	t.Helper()
	images, err := digits.Images()
	if err != nil {
		t.Fatal(err)
	}
	pixels := digits.Input(images[:n]...)
	return pixels, tensor.Bytes(pixels)
}

// expected are the probabilities that the classifier gives alone.
func expected(t *testing.T, pixels []float32) []float32 {
	t.Helper()
	m, err := weir.Load(digits.Model)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	x, err := weir.NewTensor(pixels, len(pixels)/64, 1, 8, 8)
	if err != nil {
		t.Fatal(err)
	}
	out, err := m.Run(t.Context(), weir.Inputs{"image": x})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p, err := weir.Output[float32](out, "probabilities")
	if err != nil {
		t.Fatal(err)
	}
	return append([]float32(nil), p...)
}

// inJSON is a request with the pictures in JSON.
func inJSON(pixels []float32, more string) []byte {
	data, _ := json.Marshal(pixels)
	return fmt.Appendf(nil, `{"inputs":[{"name":"image","datatype":"FP32","shape":[%d,1,8,8],`+
		`"data":%s}]%s}`, len(pixels)/64, data, more)
}

const inferPath = "/v2/models/digits/infer"

// TestInfer: however a request comes and its answer goes, the numbers are those of the model alone,
// bit by bit.
func TestInfer(t *testing.T) {
	s := begin(t, Options{}, digitsSource())
	for _, n := range []int{1, 5} {
		pixels, raw := picture(t, n)
		want := expected(t, pixels)
		head := fmt.Appendf(nil, `{"id":"a","inputs":[{"name":"image","datatype":"FP32","shape":`+
			`[%d,1,8,8],"parameters":{"binary_data_size":%d}}],"parameters":`+
			`{"binary_data_output":true}}`, n, len(raw))
		for way, r := range map[string]*http.Response{
			"json": ask(s, "POST", inferPath, inJSON(pixels, "")),
			"version": ask(s, "POST", "/v2/models/digits/versions/3/infer",
				inJSON(pixels, `,"outputs":[{"name":"probabilities"}]`)),
			"gzip": ask(s, "POST", inferPath, gzipped(inJSON(pixels, "")), "Content-Encoding",
				"gzip"),
			"deflate": ask(s, "POST", inferPath, deflated(inJSON(pixels, "")), "Content-Encoding",
				"deflate"),
			"binary": ask(s, "POST", inferPath, append(head, raw...), headerLength,
				strconv.Itoa(len(head))),
			"raw": ask(s, "POST", inferPath, raw, headerLength, "0"),
			"to gzip": ask(s, "POST", inferPath, inJSON(pixels, ""), "Accept-Encoding",
				"gzip, deflate"),
			"to deflate": ask(s, "POST", inferPath, raw, headerLength, "0", "Accept-Encoding",
				"deflate"),
		} {
			if r.StatusCode != http.StatusOK {
				t.Errorf("%s, %d pictures: %s: %s", way, n, r.Status, all(t, r))
				continue
			}
			if got := probabilities(t, r); !tensor.Equal(got, tensor.From(want, n, 10)) {
				t.Errorf("%s, %d pictures: %v, want %v", way, n, got, want)
			}
		}
	}
}

func gzipped(b []byte) []byte {
	var to bytes.Buffer
	w := gzip.NewWriter(&to)
	_, _ = w.Write(b)
	_ = w.Close()
	return to.Bytes()
}

func deflated(b []byte) []byte {
	var to bytes.Buffer
	w := zlib.NewWriter(&to)
	_, _ = w.Write(b)
	_ = w.Close()
	return to.Bytes()
}

// probabilities reads the one output of an answer.
func probabilities(t *testing.T, r *http.Response) *tensor.Tensor {
	t.Helper()
	var from io.Reader = r.Body
	var err error
	switch r.Header.Get("Content-Encoding") {
	case "gzip":
		from, err = gzip.NewReader(from)
	case "deflate":
		from, err = zlib.NewReader(from)
	}
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	header := len(body)
	if h := r.Header.Get(headerLength); h != "" {
		if header, err = strconv.Atoi(h); err != nil {
			t.Fatal(err)
		}
	}
	// an answer's outputs look like a request's inputs
	body = bytes.Replace(body, []byte(`"outputs"`), []byte(`"inputs"`), 1)
	answer, err := oip.Decode(body, header-1, nil)
	if err != nil || len(answer.Inputs) != 1 || answer.Inputs[0].Name != "probabilities" {
		t.Fatalf("%s: %v", body, err)
	}
	return answer.Inputs[0].Tensor
}

// TestEndpoints: what each endpoint answers beside inference.
func TestEndpoints(t *testing.T) {
	s := begin(t, Options{Version: "1.2", Body: 4096}, digitsSource())
	pixels, _ := picture(t, 1)
	wrong := bytes.Replace(inJSON(pixels, ""), []byte("image"), []byte("imago"), 1)
	big := inJSON(make([]float32, 64*40), "")
	for _, c := range []struct {
		method, path string
		body         []byte
		headers      []string
		status       int
		says         string
	}{
		{"GET", "/v2", nil, nil, 200, `{"name":"weir","version":"1.2","extensions":["binary`},
		{"GET", "/v2/health/live", nil, nil, 200, `{"live":true}`},
		{"GET", "/v2/health/ready", nil, nil, 200, `{"ready":true}`},
		{"GET", "/v2/models/digits", nil, nil, 200, `{"name":"digits","versions":["3"],` +
			`"platform":"onnx_onnxv1","inputs":[{"name":"image","datatype":"FP32",` +
			`"shape":[-1,1,8,8]}],"outputs":[{"name":"probabilities","datatype":"FP32",` +
			`"shape":[-1,10]}]}`},
		{"GET", "/v2/models/digits/versions/3", nil, nil, 200, `"versions":["3"]`},
		{"GET", "/v2/models/digits/versions/3/config", nil, nil, 200, `{"name":"digits","platform":` +
			`"onnx_onnxv1","backend":"weir","version_policy":{"latest":{"num_versions":1}},` +
			`"max_batch_size":0,"input":[{"name":"image","data_type":"TYPE_FP32",` +
			`"dims":[-1,1,8,8]}],"output":[{"name":"probabilities","data_type":"TYPE_FP32",` +
			`"dims":[-1,10]}],"default_model_filename":"model.onnx"`},
		{"GET", "/v2/models/digits/ready", nil, nil, 200, `{"name":"digits","ready":true}`},
		{"GET", "/v2/models/digits/versions/2/ready", nil, nil, 404, `it has 3`},
		{"GET", "/v2/models/a%2F..", nil, nil, 404, "Request for unknown model"},
		{"POST", "/v2/models/x/infer", nil, nil, 404, "Request for unknown model"},
		{"GET", "/v2/nothing", nil, nil, 404, "there is no /v2/nothing"},
		{"GET", inferPath, nil, nil, 405, "use POST"},
		{"DELETE", "/v2/models/digits", nil, nil, 405, "use GET"},
		{"POST", "/v2/repository/index", nil, nil, 200,
			`[{"name":"digits","version":"3","state":"READY","reason":""}]`},
		{"POST", inferPath, []byte("{"), nil, 400, "byte 1"},
		{"POST", inferPath, wrong, nil, 400, "imago"},
		{"POST", inferPath, inJSON(pixels, `,"outputs":[{"name":"no"}]`), nil, 400, "no output"},
		{"POST", inferPath, inJSON(pixels, `,"parameters":{"timeout":"1"}`), nil, 400, "timeout"},
		{"POST", inferPath, []byte(`{"inputs":[{"name":"image","datatype":"FP32","shape":[1,1,8,` +
			`8],"parameters":{"shared_memory_region":"r","shared_memory_byte_size":256}}]}`), nil,
			501, "shared memory"},
		{"POST", inferPath, inJSON(pixels, `,"outputs":[{"name":"probabilities","parameters":{`+
			`"shared_memory_region":"r","shared_memory_byte_size":40}}]`), nil, 501,
			"shared memory"},
		{"POST", inferPath, big, nil, 413, "too large"},
		{"POST", inferPath, gzipped(big), []string{"Content-Encoding", "gzip"}, 413, "too large"},
		{"POST", inferPath, nil, []string{"Content-Encoding", "br"}, 415, "gzip"},
		{"POST", inferPath, []byte("x"), []string{"Content-Encoding", "gzip"}, 400, "no gzip"},
		{"POST", inferPath, nil, []string{headerLength, "x"}, 400, "number of bytes"},
		{"POST", inferPath, nil, []string{headerLength, "-1"}, 400, "-1"},
		{"POST", inferPath, []byte("xyz"), []string{headerLength, "0"}, 400, "whole number"},
		{"POST", inferPath, inJSON(pixels, ""), []string{"Sec-Fetch-Site", "cross-site"}, 403,
			"origin"},
	} {
		r := ask(s, c.method, c.path, c.body, c.headers...)
		body := string(all(t, r))
		if r.StatusCode != c.status || !strings.Contains(body, c.says) ||
			r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %s %s, want %d with %s", c.method, c.path, r.Status, body, c.status,
				c.says)
		}
		var f oip.Failure
		if err := json.Unmarshal([]byte(body), &f); c.status >= 400 && (err != nil ||
			f.Error == "") {
			t.Errorf("%s %s: %s is no error", c.method, c.path, body)
		}
	}
	for host, want := range map[string]int{"localhost": 200, "127.0.0.2:8000": 200, "[::1]:80": 200,
		"::1": 200, "a.localhost:1": 200, "example.com": 403, "10.0.0.1": 403, "": 403,
		":80": 403, "localhost.example.com": 403, "[::ffff:127.0.0.1]": 200, "127.0.0.1:1:2": 403} {
		r := httptest.NewRequest("GET", "/v2", nil)
		r.Host = host
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, r); w.Code != want {
			t.Errorf("host %q: %d, want %d", host, w.Code, want)
		}
	}
}

// TestClassification: the labels' places with the highest probabilities, row by row.
func TestClassification(t *testing.T) {
	s := begin(t, Options{}, digitsSource())
	pixels, _ := picture(t, 2)
	r := ask(s, "POST", inferPath, inJSON(pixels,
		`,"outputs":[{"name":"probabilities","parameters":{"classification":2}}]`))
	got := probabilities(t, r)
	labels, err := digits.Labels()
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got.Shape) != "[2 2]" {
		t.Fatalf("shape %v", got.Shape)
	}
	for i := range 2 {
		if _, class, _ := strings.Cut(got.Strings[2*i],
			":"); class != strconv.Itoa(int(labels[i])) {
			t.Errorf("picture %d is %s, want %d", i, got.Strings[2*i], labels[i])
		}
	}
}

// held is a model whose runs wait for what is sent to them, but for the first, which the server
// warms it up with.
func held(name string, entered chan<- struct{}, leave <-chan struct{}, eval error) Source {
	var warm atomic.Bool
	o := weir.Operator{Domain: "test", Name: "Hold", Inputs: 1, Random: true,
		Eval: func(c *op.Eval) error {
			if warm.Swap(true) {
				entered <- struct{}{}
				<-leave
				if eval != nil {
					return eval
				}
			}
			y, err := c.Output(0, tensor.Float32, c.In[0].Shape)
			if err == nil {
				copy(y.Data, c.In[0].Data)
			}
			return err
		}}
	return computed(name, 1, o)
}

// computed is a version of a model of one operator of domain test, of one input and one result.
func computed(name string, version int64, o weir.Operator) Source {
	return Source{Name: name, Version: version, Open: func() (*weir.Model, error) {
		g, err := graph.Parse(`graph "computed" {
		  opset "" 17
		  opset "test" 1
		  input %x: float32[N]
		  %y: float32[N] = test:` + o.Name + `@1 (%x)
		  output %y
		}`)
		if err != nil {
			return nil, err
		}
		var file bytes.Buffer
		if err := onnx.Write(&file, g, onnx.WriteOptions{}); err != nil {
			return nil, err
		}
		return weir.Load(file.Bytes(), weir.WithOperators(o))
	}}
}

const holdBody = `{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[4]}]}`

// TestQueueAndDrain: a model takes as many requests as its queue may hold; draining refuses what is
// new and waits for what was taken, all of which is answered.
func TestQueueAndDrain(t *testing.T) {
	entered, leave := make(chan struct{}, 9), make(chan struct{})
	s := begin(t, Options{Queue: 1}, held("hold", entered, leave, nil))
	send := func() <-chan *http.Response {
		c := make(chan *http.Response, 1)
		go func() { c <- ask(s, "POST", "/v2/models/hold/infer", []byte(holdBody)) }()
		return c
	}
	first := send()
	<-entered
	second := send()
	for !s.full("hold") {
		runtime.Gosched()
	}
	if r := <-send(); r.StatusCode != 503 || r.Header.Get("Retry-After") == "" {
		t.Errorf("a third request: %s", r.Status)
	}
	gone, cancel := context.WithCancelCause(t.Context())
	why := errors.New("no time")
	cancel(why)
	if err := s.Drain(gone); !errors.Is(err, why) || !strings.Contains(err.Error(), "2 requests") {
		t.Errorf("a drain without time: %v", err)
	}
	if r := <-send(); r.StatusCode != 503 {
		t.Errorf("a request while draining: %s", r.Status)
	}
	if r := ask(s, "GET", "/v2/health/ready", nil); r.StatusCode != 503 {
		t.Errorf("ready while draining: %s", r.Status)
	}
	drained := make(chan error, 1)
	go func() { drained <- s.Drain(t.Context()) }()
	leave <- struct{}{}
	if r := <-first; r.StatusCode != 200 {
		t.Errorf("the first: %s", r.Status)
	}
	select {
	case err := <-drained:
		t.Fatalf("drained with a request under way: %v", err)
	default:
	}
	leave <- struct{}{}
	if r := <-second; r.StatusCode != 200 || !strings.Contains(string(all(t, r)), `"data":[4]`) {
		t.Errorf("the second: %s", r.Status)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// full tells whether a model's queue is.
func (s *Server) full(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.models[name].newest().queue.Waiting() >= s.o.Queue
}

// TestFaults: an error of a model is the server's, a timeout ends a request that waits, and a
// panic ends nothing else.
func TestFaults(t *testing.T) {
	entered, leave := make(chan struct{}, 9), make(chan struct{}, 9)
	var log bytes.Buffer
	s := begin(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))},
		held("fails", entered, leave, errors.New("broken by itself")),
		held("hold", entered, leave, nil))
	leave <- struct{}{}
	r := ask(s, "POST", "/v2/models/fails/infer", []byte(holdBody))
	if b := all(t, r); r.StatusCode != 500 || !bytes.Contains(b, []byte("broken by itself")) ||
		!strings.Contains(log.String(), "broken by itself") {
		t.Errorf("%s %s; log: %s", r.Status, b, log.String())
	}
	<-entered
	first := make(chan *http.Response, 1)
	go func() { first <- ask(s, "POST", "/v2/models/hold/infer", []byte(holdBody)) }()
	<-entered
	late := strings.TrimSuffix(holdBody, "}") + `,"parameters":{"timeout":1}}`
	if r := ask(s, "POST", "/v2/models/hold/infer", []byte(late)); r.StatusCode != 503 {
		t.Errorf("a request without time: %s %s", r.Status, all(t, r))
	}
	leave <- struct{}{}
	if r := <-first; r.StatusCode != 200 {
		t.Errorf("the one before: %s", r.Status)
	}
	panics := s.answer(func(http.ResponseWriter, *http.Request) error { panic("a bug") })
	if r := ask(panics, "GET", "/", nil); r.StatusCode != 500 || !strings.Contains(log.String(),
		"a bug") {
		t.Errorf("a panic: %s", r.Status)
	}
}

// TestLoadAll: a model that cannot be loaded leaves the others served, the server not ready, and
// its reason in the index.
func TestLoadAll(t *testing.T) {
	folder := t.TempDir()
	for name, content := range map[string][]byte{"good": digits.Model, "bad": []byte("no model")} {
		path := filepath.Join(folder, name, "2", repo.File)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, _, err := repo.Scan(folder)
	if err != nil {
		t.Fatal(err)
	}
	s := begin(t, Options{})
	var sources []Source
	from := &Folder{Path: folder}
	for i := range found {
		sources = append(sources, from.Offer(&found[i]).Sources...)
	}
	if err := s.LoadAll(t.Context(), sources); !errors.Is(err, weir.ErrModel) {
		t.Errorf("LoadAll: %v", err)
	}
	if s.Ready() {
		t.Error("ready without a model")
	}
	if r := ask(s, "GET", "/v2/models/good/ready", nil); r.StatusCode != 200 {
		t.Errorf("the good model: %s", r.Status)
	}
	index := string(all(t, ask(s, "POST", "/v2/repository/index", nil)))
	if !strings.HasPrefix(index,
		`[{"name":"bad","version":"2","state":"UNAVAILABLE","reason":"model bad`) ||
		!strings.Contains(index, `"good","version":"2","state":"READY"`) {
		t.Errorf("index %s", index)
	}
	for body, want := range map[string]int{`{"ready":false}`: 2, `{"ready":true}`: 1, `{}`: 2,
		"none": 0, `{"ready":"yes"}`: 0, "[]": 0} {
		answer := ask(s, "POST", "/v2/repository/index", []byte(body))
		var list []oip.IndexEntry
		_ = json.Unmarshal(all(t, answer), &list)
		if len(list) != want || (answer.StatusCode == 200) != (want > 0) {
			t.Errorf("index of %s: %s, %v", body, answer.Status, list)
		}
	}
}

// pipes is a listener whose connections are made in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// dial begins a request over HTTP/1.1 of which so much is sent.
func (p pipes) dial(t *testing.T, sent string) net.Conn {
	t.Helper()
	here, there := net.Pipe()
	p <- there
	if _, err := io.WriteString(here, sent); err != nil {
		t.Error(err)
	}
	return here
}

// announced is a request for inference with a body that has so many bytes, as far as body goes.
func announced(model string, length int, body string) string {
	return fmt.Sprintf("POST /v2/models/%s/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d"+
		"\r\n\r\n%s", model, length, body)
}

// answered reads an answer.
func answered(t *testing.T, from net.Conn) (int, string) {
	t.Helper()
	r, err := http.ReadResponse(bufio.NewReader(from), nil)
	if err != nil {
		t.Errorf("no answer: %v", err)
		return 0, ""
	}
	return r.StatusCode, string(all(t, r))
}

// TestSlowClients: clients that do not send, or do not read, hold no place in a queue, and go after
// a time; a quick one is answered meanwhile. Time is virtual.
func TestSlowClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, leave := make(chan struct{}, 99), make(chan struct{}, 99)
		s := begin(t, Options{Queue: 2}, held("hold", entered, leave, nil))
		on := make(pipes)
		h := &http.Server{Handler: s, ReadTimeout: time.Minute}
		go func() { _ = h.Serve(on) }()
		defer h.Close()
		for range 99 {
			leave <- struct{}{}
		}
		whole := announced("hold", len(holdBody), holdBody)
		var senders, readers []net.Conn
		for range 4 {
			senders = append(senders, on.dial(t, announced("hold", len(holdBody), holdBody[:9])))
			readers = append(readers, on.dial(t, whole))
			synctest.Wait()
		}
		began := time.Now()
		if code, text := answered(t, on.dial(t, whole)); code != http.StatusOK {
			t.Errorf("a quick client among slow ones: %d %s", code, text)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("a quick client waited %v", took)
		}
		for _, c := range senders {
			if code, text := answered(t, c); code != http.StatusRequestTimeout {
				t.Errorf("a slow sender: %d %s", code, text)
			}
		}
		time.Sleep(patience)
		synctest.Wait()
		for _, c := range readers {
			if b, err := io.ReadAll(c); len(b) > 0 {
				t.Errorf("a client that did not read for %v reads %d bytes, %v",
					time.Since(began), len(b), err)
			}
		}
		if n := s.bodies.Load(); n != 0 {
			t.Errorf("%d bytes of bodies are held without a request", n)
		}
	})
}

// TestLongRun: how long a run takes does not end it: the bound on reading is for what is sent, as a
// whole, in pieces, compressed or not at all.
func TestLongRun(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(holdBody))
	_ = z.Close()
	const head = "POST /v2/models/hold/infer HTTP/1.1\r\nHost: localhost\r\n"
	for how, sent := range map[string]string{
		"whole": announced("hold", len(holdBody), holdBody),
		"chunked": fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", head,
			len(holdBody), holdBody),
		"compressed": fmt.Sprintf("%sContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", head,
			packed.Len(), &packed),
		"empty": head + headerLength + ": 0\r\nContent-Length: 0\r\n\r\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			entered, leave := make(chan struct{}, 1), make(chan struct{}, 1)
			s := begin(t, Options{}, held("hold", entered, leave, nil))
			on := make(pipes)
			gone := make(chan error, 1)
			h := &http.Server{ReadTimeout: time.Minute, Handler: http.HandlerFunc(func(
				w http.ResponseWriter, r *http.Request) {
				s.ServeHTTP(w, r)
				gone <- r.Context().Err()
			})}
			go func() { _ = h.Serve(on) }()
			defer h.Close()
			c := on.dial(t, sent)
			<-entered
			time.Sleep(time.Hour)
			leave <- struct{}{}
			if code, text := answered(t, c); code != http.StatusOK {
				t.Errorf("a run of an hour, sent %s: %d %s", how, code, text)
			}
			if err := <-gone; err != nil {
				t.Errorf("a client that waits, sent %s, is taken for gone: %v", how, err)
			}
		})
	}
}

// TestBodies: bodies have bounded memory, which grows with what came and not with what was
// announced, and is given back.
func TestBodies(t *testing.T) {
	s := begin(t, Options{Bodies: 4 * step}, digitsSource())
	pixels, _ := picture(t, 1)
	large := bytes.Repeat([]byte(" "), 5*step)
	for range 9 {
		r := ask(s, "POST", inferPath, large)
		if r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" {
			t.Fatalf("a body above the bound: %s", r.Status)
		}
		if r := ask(s, "POST", inferPath, inJSON(pixels, "")); r.StatusCode != http.StatusOK {
			t.Fatalf("a small one after it: %s", r.Status)
		}
	}
	if n := s.bodies.Load(); n != 0 {
		t.Errorf("%d bytes are held without a request", n)
	}
}

// TestBeginning: before the models of the begin are loaded a client is told to ask again, about a
// model that may be among them; and then that there is none.
func TestBeginning(t *testing.T) {
	s, err := New(Options{Log: slog.New(slog.DiscardHandler), Batch: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, path := range []string{"/infer", "", "/ready", "/config"} {
		method := "GET"
		if path == "/infer" {
			method = "POST"
		}
		r := ask(s, method, "/v2/models/digits"+path, []byte("{}"))
		if r.StatusCode != 503 {
			t.Errorf("%s at the begin: %s", path, r.Status)
		}
		if path == "/infer" && r.Header.Get("Retry-After") == "" {
			t.Errorf("%s does not say when to ask again", path)
		}
	}
	if err := s.LoadAll(t.Context(), []Source{digitsSource()}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"digits": 200, "none": 404} {
		if r := ask(s, "GET", "/v2/models/"+name, nil); r.StatusCode != want {
			t.Errorf("%s: %s", name, r.Status)
		}
	}
}

// TestDrainCutsBodies: draining does not wait for bodies that still come: they are refused.
func TestDrainCutsBodies(t *testing.T) {
	s := begin(t, Options{}, digitsSource())
	from, to := io.Pipe()
	r := httptest.NewRequest("POST", "http://localhost"+inferPath, from)
	w := httptest.NewRecorder()
	done := make(chan struct{})
	go func() { s.ServeHTTP(w, r); close(done) }()
	if _, err := io.WriteString(to, "{"); err != nil {
		t.Fatal(err)
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.WriteString(to, " ") }() // which may find that nobody reads any more
	<-done
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("a body that came while draining: %d %s", w.Code, w.Body)
	}
	_ = from.Close() // ends the write
}

// TestFace: what a protocol asks of the server has answers whose tensors hold until they are
// closed, and errors that are faults.
func TestFace(t *testing.T) {
	s := begin(t, Options{}, digitsSource())
	pixels, _ := picture(t, 2)
	request := func(more oip.Parameters, outputs ...oip.Output) *oip.Request {
		return &oip.Request{ID: "a", Parameters: more, Outputs: outputs, Inputs: []oip.Input{
			{Name: "image", Tensor: tensor.From(pixels, 2, 1, 8, 8)}}}
	}
	a, err := s.Infer(t.Context(), "digits", "", request(nil))
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Outputs[0]; a.Model != "digits" || a.Version != "3" || a.ID != "a" ||
		!tensor.Equal(got.Tensor, tensor.From(expected(t, pixels), 2, 10)) {
		t.Errorf("answer %+v", a.Response)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	past, over := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer over()
	for _, c := range []struct {
		ctx           context.Context
		name, version string
		r             *oip.Request
		kind          oip.Kind
	}{
		{t.Context(), "no", "", request(nil), oip.NotFound},
		{t.Context(), "digits", "4", request(nil), oip.NotFound},
		{t.Context(), "digits", "", request(nil, oip.Output{Name: "no"}), oip.Invalid},
		{t.Context(), "digits", "", request(oip.Parameters{"timeout": "1"}), oip.Invalid},
		{t.Context(), "digits", "3", &oip.Request{}, oip.Invalid},
		{gone, "digits", "", request(nil), oip.Cancelled},
		{past, "digits", "", request(nil), oip.Late},
	} {
		var f *oip.Fault
		if _, err := s.Infer(c.ctx, c.name, c.version, c.r); !errors.As(err, &f) ||
			f.Kind != c.kind || strings.Contains(f.Text, "\n") {
			t.Errorf("%s %s: %v, want %v", c.name, c.version, err, c.kind)
		}
	}
	drained := make(chan error, 1)
	go func() { drained <- s.Drain(t.Context()) }()
	for !s.stopping() {
		runtime.Gosched()
	}
	select {
	case err := <-drained:
		t.Errorf("drained with an answer open: %v", err)
	default:
	}
	a.Close()
	a.Close()
	if err := <-drained; err != nil {
		t.Error(err)
	}
	if _, err := s.Infer(t.Context(), "digits", "", request(nil)); oip.KindOf(err) !=
		oip.Unavailable || oip.RetryAfter(err) == 0 {
		t.Errorf("while stopping: %v", err)
	}
}
