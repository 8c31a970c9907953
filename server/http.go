package server

import (
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/netip"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/telemetry"
)

// headerLength says how many bytes of a body are JSON (Triton, extension_binary_data.md).
const headerLength = "Inference-Header-Content-Length"

// endpoint answers a request, or returns the error that the client is told of.
type endpoint = func(http.ResponseWriter, *http.Request) error

// routes are the endpoints. Each is known by its path alone too, so that a wrong method has an
// answer like other errors.
func (s *Server) routes() {
	mux := http.NewServeMux()
	s.mux = mux
	on := func(methods, path string, h endpoint) {
		for method := range strings.SplitSeq(methods, ", ") {
			s.Handle(method+" "+path, s.answer(h))
		}
		mux.HandleFunc(path, s.answer(func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Allow", methods)
			return &httpError{http.StatusMethodNotAllowed, fmt.Sprintf("%.20s %.200s: use %s",
				r.Method, r.URL.Path, methods)}
		}))
	}
	on("GET", "/v2", s.serverMetadata)
	on("GET", "/v2/health/live", s.live)
	on("GET", "/v2/health/ready", s.isReady)
	on("POST", "/v2/repository/index", s.repositoryIndex)
	on("POST", "/v2/repository/models/{model}/load", s.loadModel)
	on("POST", "/v2/repository/models/{model}/unload", s.unloadModel)
	for _, model := range []string{"/v2/models/{model}", "/v2/models/{model}/versions/{version}"} {
		on("GET", model, s.modelMetadata)
		on("GET", model+"/ready", s.modelReady)
		on("GET", model+"/config", s.modelConfig)
		on("GET", model+"/stats", s.statistics)
		on("POST", model+"/infer", s.followed(s.infer))
		on("POST", model+"/generate", s.followed(s.generate))
		on("POST", model+"/generate_stream", s.followed(s.generate))
	}
	on("GET", "/metrics", s.metrics)
	s.modelRoutes()
	on("GET, POST", "/v2/trace/setting", s.traceSettings)
	on("GET, POST", "/v2/models/{model}/trace/setting", s.traceSettings)
	on("GET, POST", "/v2/logging", s.logSettings)
	s.memoryRoutes(on)
	// other methods are those of a model of that name
	s.Handle("GET /v2/models/stats", s.answer(s.statistics))
	mux.HandleFunc("/", s.answer(func(_ http.ResponseWriter, r *http.Request) error {
		return oip.Faultf(oip.NotFound, "there is no %.200s: GET /v2 says what there is",
			r.URL.Path)
	}))
}

// guarded refuses what a browser sends for pages from elsewhere.
func (s *Server) guarded(next http.Handler) http.Handler {
	guard := http.NewCrossOriginProtection()
	guard.SetDenyHandler(s.answer(func(http.ResponseWriter, *http.Request) error {
		return oip.Faultf(oip.Denied, "a page of another origin may not ask")
	}))
	if s.o.AnyName {
		return guard.Handler(next)
	}
	return s.local(guard.Handler(next))
}

// local refuses requests that name a host which is not this one by its address: a page from
// elsewhere whose name was made to lead here (DNS rebinding) sends its own name.
func (s *Server) local(next http.Handler) http.Handler {
	refuse := s.answer(func(_ http.ResponseWriter, r *http.Request) error {
		return oip.Faultf(oip.Denied, "host %.200q: this server answers as localhost only",
			r.Host)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if loopback(r.Host) {
			next.ServeHTTP(w, r)
			return
		}
		refuse(w, r)
	})
}

// loopback reports whether a host, with its port or without, is this machine.
func loopback(host string) bool {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && (strings.HasSuffix(host[:i], "]") ||
		strings.IndexByte(host, ':') == i) {
		host = host[:i]
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.Unmap().IsLoopback()
}

// answer makes an error of an endpoint its answer, and a panic an error.
func (s *Server) answer(h func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { s.call(h, w, r) }
}

// call is a request to what answer makes of h.
func (s *Server) call(h func(http.ResponseWriter, *http.Request) error, w http.ResponseWriter,
	r *http.Request) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if p == http.ErrAbortHandler {
			panic(p)
		}
		s.o.Log.Error("panic while answering", "path", r.URL.Path, "panic", p,
			"stack", string(debug.Stack()))
		fail(w, http.StatusInternalServerError, internalFault)
	}()
	err := h(w, r)
	if err == nil {
		return
	}
	code := status(err)
	if after := oip.RetryAfter(err); after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
	}
	if code == http.StatusInternalServerError {
		s.o.Log.Error("request failed", "path", r.URL.Path, "error", err)
	}
	fail(w, code, text(err))
}

// fail writes an answer that is an error.
func fail(w http.ResponseWriter, code int, text string) {
	write(w, code, oip.Failure{Error: text})
}

// write writes an answer in JSON.
func write(w http.ResponseWriter, code int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		panic(err) // bodies are this package's own
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	_ = timed(w).SetWriteDeadline(time.Now().Add(patience))
	w.WriteHeader(code)
	_, _ = w.Write(b) // a client that is gone reads no error either
}

func (s *Server) serverMetadata(w http.ResponseWriter, _ *http.Request) error {
	write(w, http.StatusOK, s.About())
	return nil
}

func (s *Server) live(w http.ResponseWriter, _ *http.Request) error {
	yes := true
	write(w, http.StatusOK, oip.Health{Live: &yes})
	return nil
}

// isReady answers as Triton does, by its status, and as the specification has it, by its body.
func (s *Server) isReady(w http.ResponseWriter, _ *http.Request) error {
	ready, code := s.Ready(), http.StatusOK
	if !ready {
		code = http.StatusServiceUnavailable
	}
	write(w, code, oip.Health{Ready: &ready})
	return nil
}

func (s *Server) repositoryIndex(w http.ResponseWriter, r *http.Request) error {
	given, err := settings(w, r)
	if err != nil {
		return err
	}
	ready, ok := given["ready"].(bool)
	if !ok && given["ready"] != nil {
		return oip.Faultf(oip.Invalid, "ready is true or false, whether only models that are "+
			"ready are listed")
	}
	write(w, http.StatusOK, slices.DeleteFunc(s.Repository(ready), func(e oip.IndexEntry) bool {
		return !auth.May(r.Context(), auth.Read, e.Name)
	}))
	return nil
}

func (s *Server) modelMetadata(w http.ResponseWriter, r *http.Request) error {
	m, err := s.Metadata(r.PathValue("model"), r.PathValue("version"))
	if err != nil {
		return err
	}
	write(w, http.StatusOK, m)
	return nil
}

func (s *Server) modelReady(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("model")
	ready, err := s.ModelReady(name, r.PathValue("version"))
	if err != nil {
		return err
	}
	code := http.StatusOK
	if !ready {
		code = http.StatusServiceUnavailable
	}
	write(w, code, oip.Health{Name: name, Ready: &ready})
	return nil
}

func (s *Server) modelConfig(w http.ResponseWriter, r *http.Request) error {
	c, err := s.Config(r.PathValue("model"), r.PathValue("version"))
	if err != nil {
		return err
	}
	write(w, http.StatusOK, c)
	return nil
}

// answers are buffers for answers, given back once written.
var answers = sync.Pool{New: func() any { return new([]byte) }}

// keep is the largest buffer that is kept for the next answer.
const keep = 1 << 20

// keepAnswer keeps a buffer for the next answer, unless it is large.
func keepAnswer(buffer *[]byte) {
	if cap(*buffer) <= keep {
		answers.Put(buffer)
	}
}

// asking is an endpoint that asks a model, and tells what follows the request.
type asking func(w http.ResponseWriter, r *http.Request, q *telemetry.Request) error

// followed counts and traces the requests of an endpoint.
func (s *Server) followed(h asking) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		q := s.rec.Begin()
		if parent := r.Header.Get("Traceparent"); parent != "" {
			q.Traced(parent, strings.Join(r.Header["Tracestate"], ","))
		}
		err := errPanic
		defer func() { q.End(counted(err)) }()
		err = h(w, r, q)
		return err
	}
}

// infer answers an inference, of which q is told.
func (s *Server) infer(w http.ResponseWriter, r *http.Request, q *telemetry.Request) error {
	v, err := s.look(r.PathValue("model"), r.PathValue("version"))
	if err != nil {
		return err
	}
	q.For(v.counts, auth.From(r.Context()).Name)
	body := body{of: s, to: timed(w), began: time.Now()}
	defer body.release()
	// a client that sends slowly must not hold a place in the queue
	request, err := body.request(w, r, v)
	q.Bytes(body.n, 0)
	if err != nil {
		return err
	}
	answer, err := s.Infer(telemetry.With(r.Context(), q), v.name, r.PathValue("version"), request)
	if err != nil {
		return err
	}
	defer answer.Close()
	buffer := answers.Get().(*[]byte)
	defer keepAnswer(buffer)
	all, header, err := answer.Append((*buffer)[:0])
	answer.free() // a client that reads slowly must not hold the model's memory
	if err != nil {
		return err
	}
	*buffer = all
	q.Mark(telemetry.Encoded)
	body.exchange(int64(cap(all)))
	h := w.Header()
	if h["Content-Type"] = typeJSON; header > 0 {
		h["Content-Type"] = typeBytes
		h[headerLength] = []string{strconv.Itoa(header)}
	}
	q.Bytes(body.n, send(w, r, all))
	return nil
}

// The types of answers, as headers have them: nobody changes them.
var (
	typeJSON  = []string{"application/json"}
	typeBytes = []string{"application/octet-stream"}
)

// deadlines are those of a connection.
type deadlines interface {
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// timed is how the deadlines of a request's connection are set: by the writer itself, as net/http's
// has them, or by way of what it wraps.
func timed(w http.ResponseWriter) deadlines {
	if d, ok := w.(deadlines); ok {
		return d
	}
	return http.NewResponseController(w)
}

// A client that sends or reads must get on: by one step within patience, and on average, after as
// much time again, by pace bytes a second.
const (
	patience = 10 * time.Second
	pace     = 128 << 10
	step     = 64 << 10
)

// due is when the next step must have come, of a transfer of which n bytes are done.
func due(began time.Time, n int64) time.Time {
	average := began.Add(patience + time.Duration(n)*(time.Second/pace))
	if next := time.Now().Add(patience); next.Before(average) {
		return next
	}
	return average
}

// body is the body of a request that is being read, and then the memory that it has.
type body struct {
	of    *Server
	to    deadlines
	began time.Time
	from  io.Reader
	n     int64 // bytes that came
	ended bool  // the last came with the end, where net/http takes the deadline back
	held  int64 // of the server's bytes for bodies
}

// Read implements io.Reader: a piece of what is sent, if it comes in time.
func (b *body) Read(p []byte) (int, error) {
	if b.of.stopping() {
		return 0, errStopping
	}
	_ = b.to.SetReadDeadline(due(b.began, b.n)) // who has no deadlines is no connection
	n, err := b.from.Read(p[:min(len(p), step)])
	b.n += int64(n)
	// an end that was known before this deadline was set takes it back no more
	b.ended = err == io.EOF && n > 0
	if err != nil && err != io.EOF && errors.Is(err, os.ErrDeadlineExceeded) {
		err = oip.Faultf(oip.TooSlow, "the body came too slowly, of which %d bytes came: send a "+
			"part each %v, and %d bytes a second", b.n, patience, pace)
	}
	return n, err
}

// request reads an inference request.
func (b *body) request(w http.ResponseWriter, r *http.Request, v *version) (*oip.Request, error) {
	all, err := b.read(w, r)
	if err != nil {
		// what is left of the body is not waited for
		w.Header().Set("Connection", "close")
		return nil, err
	}
	given := r.Header.Get(headerLength)
	if given == "" {
		return v.decode(all, -1, b)
	}
	header, err := strconv.Atoi(given)
	if err != nil || header < 0 {
		return nil, fmt.Errorf("%w: %s is %.40q: give a number of bytes", oip.ErrRequest,
			headerLength, given)
	}
	return v.decode(all, header, b)
}

// decode reads a body of which header bytes are JSON, all where that is negative.
func (v *version) decode(body []byte, header int, hold oip.Holder) (*oip.Request, error) {
	switch {
	case header < 0:
		header = len(body)
	case header == 0:
		return v.raw(body, hold)
	}
	return oip.Decode(body, header, hold)
}

// read reads the whole body of a request, and decompresses it.
func (b *body) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	limit := b.of.o.Body
	if b.from = r.Body; r.ContentLength < 0 || r.ContentLength > limit {
		b.from = http.MaxBytesReader(w, r.Body, limit)
	}
	plain, err := decompress(b, r.Header.Get("Content-Encoding"))
	if err != nil {
		return nil, err
	}
	expected := min(r.ContentLength, limit)
	if plain != io.Reader(b) {
		plain, expected = io.LimitReader(plain, limit+1), -1
	}
	all, err := b.readAll(plain, expected)
	if err == nil && int64(len(all)) > limit || tooLarge(err) {
		err = oip.Faultf(oip.TooLarge, "the body is too large: at most %d bytes are taken, also "+
			"after decompression", limit)
	}
	if err == nil && !b.ended {
		// net/http reads on, to learn that a client is gone, for as long as the answer takes
		_ = b.to.SetReadDeadline(time.Time{})
	}
	return all, err
}

// tooLarge reports whether an error is that of a body beyond the limit.
func tooLarge(err error) bool {
	if err == nil { // large lies on the heap
		return false
	}
	var large *http.MaxBytesError
	return errors.As(err, &large)
}

// readAll reads to the end, which is expected after so many bytes unless that is negative. Memory
// grows with what came, not with what was announced.
func (b *body) readAll(from io.Reader, expected int64) ([]byte, error) {
	all, room := []byte(nil), int64(step)
	for {
		if len(all) == cap(all) {
			if expected >= int64(len(all)) {
				room = min(room, expected+1) // one more finds the end
			}
			if err := b.Hold(room); err != nil {
				return nil, err
			}
			all = append(make([]byte, 0, room), all...)
			b.exchange(room)
			room *= 4
		}
		n, err := from.Read(all[len(all):cap(all)])
		all = all[:len(all)+n]
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, unread(err)
		}
	}
}

// unread is the error of a body that could not be read.
func unread(err error) error {
	var known *oip.Fault
	if tooLarge(err) || errors.As(err, &known) {
		return err
	}
	return fmt.Errorf("%w: the body: %w", oip.ErrRequest, err)
}

// Hold takes so many bytes more of those that the server has for bodies, as oip.Holder has it.
func (b *body) Hold(more int64) error {
	if err := b.of.Hold(more); err != nil {
		return err
	}
	b.held += more
	return nil
}

// exchange gives back what is held for n bytes, which are there already.
func (b *body) exchange(n int64) {
	b.of.bodies.Add(n - b.held)
	b.held = n
}

func (b *body) release() { b.exchange(0) }

// decompress returns what a body says in plain; deflate is zlib's form (RFC 9110, section 8.4.1.2).
func decompress(body io.Reader, encoding string) (plain io.Reader, err error) {
	switch strings.ToLower(encoding) {
	case "", "identity":
		return body, nil
	case "gzip":
		plain, err = gzip.NewReader(body)
	case "deflate":
		plain, err = zlib.NewReader(body)
	default:
		return nil, &httpError{http.StatusUnsupportedMediaType, fmt.Sprintf("Content-Encoding "+
			"%.40q: send gzip, deflate or neither", encoding)}
	}
	if err != nil {
		err = fmt.Errorf("%w: the body is no %s: %w", oip.ErrRequest, encoding, err)
	}
	return plain, err
}

// compressor compresses an answer.
type compressor interface {
	io.WriteCloser
	Reset(io.Writer)
}

// compressors are kept by their encodings: one has a megabyte, which would take a millisecond to
// make for each answer, and many clients ask for it whether they have told anybody or not.
var compressors = map[string]*sync.Pool{
	"gzip": {New: func() any {
		w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed)
		return w
	}},
	"deflate": {New: func() any {
		w, _ := zlib.NewWriterLevel(nil, zlib.BestSpeed)
		return w
	}},
}

// flight is how many bytes of an answer come at once, whole or compressed: what a server may send
// before it hears from the client (RFC 6928: ten segments of 1,460 bytes), but for the head.
const flight = 14_000

// send writes an answer that may be long, compressed if the client asks for that first of all and
// it would not come at once anyway. It returns how many bytes were written; a client that is gone
// reads no error either.
func send(w http.ResponseWriter, r *http.Request, body []byte) int64 {
	h := w.Header()
	first, _, _ := strings.Cut(r.Header.Get("Accept-Encoding"), ",")
	first = strings.TrimSpace(first)
	answer := &steps{w: w, to: timed(w), began: time.Now()}
	pool := compressors[first]
	if pool == nil || len(body) <= flight {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
		_, _ = answer.Write(body)
		return answer.n
	}
	to := pool.Get().(compressor)
	defer func() {
		to.Reset(nil)
		pool.Put(to)
	}()
	to.Reset(answer)
	h.Set("Content-Encoding", first)
	h.Set("Vary", "Accept-Encoding")
	if _, err := to.Write(body); err != nil {
		return answer.n
	}
	_ = to.Close()
	return answer.n
}

// steps writes an answer to a client that must get on.
type steps struct {
	w     io.Writer
	to    deadlines
	began time.Time
	n     int64
}

// Write implements io.Writer.
func (s *steps) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		_ = s.to.SetWriteDeadline(due(s.began, s.n))
		var done int
		done, err = s.w.Write(p[n:min(len(p), n+step)])
		n, s.n = n+done, s.n+int64(done)
	}
	return n, err
}
