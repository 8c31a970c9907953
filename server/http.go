package server

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"github.com/weirgpu/weir/server/oip"
)

// headerLength says how many bytes of a body are JSON (Triton, extension_binary_data.md).
const headerLength = "Inference-Header-Content-Length"

// routes are the endpoints. Each is known by its path alone too, so that a wrong method has an
// answer like other errors.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	on := func(method, path string, h func(http.ResponseWriter, *http.Request) error) {
		mux.HandleFunc(method+" "+path, s.answer(h))
		mux.HandleFunc(path, s.answer(func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Allow", method)
			return problem(http.StatusMethodNotAllowed, "%.20s %.200s: use %s", r.Method,
				r.URL.Path, method)
		}))
	}
	on("GET", "/v2", s.serverMetadata)
	on("GET", "/v2/health/live", s.live)
	on("GET", "/v2/health/ready", s.isReady)
	on("POST", "/v2/repository/index", s.repositoryIndex)
	for _, model := range []string{"/v2/models/{model}", "/v2/models/{model}/versions/{version}"} {
		on("GET", model, s.modelMetadata)
		on("GET", model+"/ready", s.modelReady)
		on("POST", model+"/infer", s.infer)
	}
	mux.HandleFunc("/", s.answer(func(_ http.ResponseWriter, r *http.Request) error {
		return problem(http.StatusNotFound, "there is no %.200s: GET /v2 says what there is",
			r.URL.Path)
	}))
	guard := http.NewCrossOriginProtection()
	guard.SetDenyHandler(s.answer(func(http.ResponseWriter, *http.Request) error {
		return problem(http.StatusForbidden, "a page of another origin may not ask")
	}))
	return s.local(guard.Handler(mux))
}

// local refuses requests that name a host which is not this one by its address: a page from
// elsewhere whose name was made to lead here (DNS rebinding) sends its own name.
func (s *Server) local(next http.Handler) http.Handler {
	refuse := s.answer(func(_ http.ResponseWriter, r *http.Request) error {
		return problem(http.StatusForbidden, "host %.200q: this server answers as localhost only",
			r.Host)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		ip := net.ParseIP(strings.Trim(host, "[]"))
		if host == "localhost" || strings.HasSuffix(host, ".localhost") ||
			ip != nil && ip.IsLoopback() {
			next.ServeHTTP(w, r)
			return
		}
		refuse(w, r)
	})
}

// answer makes an error of an endpoint its answer, and a panic an error.
func (s *Server) answer(h func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
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
			fail(w, http.StatusInternalServerError, "internal fault: the server's log has it")
		}()
		err := h(w, r)
		if err == nil {
			return
		}
		code := status(err)
		if code == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "1")
		}
		if code == http.StatusInternalServerError {
			s.o.Log.Error("request failed", "path", r.URL.Path, "error", err)
		}
		fail(w, code, text(err))
	}
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
	w.WriteHeader(code)
	_, _ = w.Write(b) // a client that is gone reads no error either
}

func (s *Server) serverMetadata(w http.ResponseWriter, _ *http.Request) error {
	write(w, http.StatusOK, oip.ServerMetadata{Name: "weir", Version: s.o.Version,
		Extensions: []string{"binary_tensor_data", "classification", "model_repository",
			"schedule_policy"}})
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

func (s *Server) repositoryIndex(w http.ResponseWriter, _ *http.Request) error {
	write(w, http.StatusOK, s.index())
	return nil
}

func (s *Server) modelMetadata(w http.ResponseWriter, r *http.Request) error {
	m, err := s.look(r.PathValue("model"), r.PathValue("version"))
	if err != nil {
		return err
	}
	write(w, http.StatusOK, m.metadata)
	return nil
}

func (s *Server) modelReady(w http.ResponseWriter, r *http.Request) error {
	m, err := s.look(r.PathValue("model"), r.PathValue("version"))
	if err != nil {
		return err
	}
	yes := true
	write(w, http.StatusOK, oip.Health{Name: m.name, Ready: &yes})
	return nil
}

// answers are buffers for answers, given back once written.
var answers = sync.Pool{New: func() any { return new([]byte) }}

// keep is the largest buffer that is kept for the next answer.
const keep = 1 << 20

func (s *Server) infer(w http.ResponseWriter, r *http.Request) error {
	m, err := s.enter(r.PathValue("model"), r.PathValue("version"))
	if err != nil {
		return err
	}
	defer s.leave(m)
	request, err := s.read(w, r, m)
	if err != nil {
		return err
	}
	buffer := answers.Get().(*[]byte)
	defer func() {
		if cap(*buffer) <= keep {
			answers.Put(buffer)
		}
	}()
	body, header, err := m.infer(r.Context(), request, (*buffer)[:0])
	if err != nil {
		return err
	}
	*buffer = body
	return send(w, r, body, header)
}

// read reads an inference request.
func (s *Server) read(w http.ResponseWriter, r *http.Request, m *model) (*oip.Request, error) {
	body, err := s.body(w, r)
	if err != nil {
		return nil, err
	}
	given := r.Header.Get(headerLength)
	if given == "" {
		return oip.Decode(body, len(body))
	}
	header, err := strconv.Atoi(given)
	if err != nil {
		return nil, fmt.Errorf("%w: %s is %.40q: give a number of bytes", oip.ErrRequest,
			headerLength, given)
	}
	if header == 0 {
		return m.raw(body)
	}
	return oip.Decode(body, header)
}

// body reads the whole body of a request, and decompresses it.
func (s *Server) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	limited := http.MaxBytesReader(w, r.Body, s.o.Body)
	plain, err := decompress(limited, r.Header.Get("Content-Encoding"))
	if err != nil {
		return nil, err
	}
	if plain == io.Reader(limited) {
		return readAll(plain, r.ContentLength)
	}
	b, err := readAll(io.LimitReader(plain, s.o.Body+1), 0)
	if err == nil && int64(len(b)) > s.o.Body {
		err = &http.MaxBytesError{Limit: s.o.Body}
	}
	return b, err
}

// readAll reads to the end. What is announced saves copies, up to a size that costs nothing if it
// never comes.
func readAll(from io.Reader, announced int64) ([]byte, error) {
	const trusted = 4 << 20
	var b bytes.Buffer
	b.Grow(int(min(max(announced, 0), trusted)) + bytes.MinRead)
	_, err := b.ReadFrom(from)
	var large *http.MaxBytesError
	if err != nil && !errors.As(err, &large) {
		err = fmt.Errorf("%w: the body: %w", oip.ErrRequest, err)
	}
	return b.Bytes(), err
}

// decompress returns what a body says in plain; deflate is zlib's form (RFC 9110, section 8.4.1.2).
func decompress(body io.Reader, encoding string) (plain io.Reader, err error) {
	switch encoding {
	case "", "identity":
		return body, nil
	case "gzip":
		plain, err = gzip.NewReader(body)
	case "deflate":
		plain, err = zlib.NewReader(body)
	default:
		return nil, problem(http.StatusUnsupportedMediaType, "Content-Encoding %.40q: send gzip, "+
			"deflate or neither", encoding)
	}
	if err != nil {
		err = fmt.Errorf("%w: the body is no %s: %w", oip.ErrRequest, encoding, err)
	}
	return plain, err
}

// send writes an inference's answer, compressed if the client asks for that first of all.
func send(w http.ResponseWriter, r *http.Request, body []byte, header int) error {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if header > 0 {
		h.Set("Content-Type", "application/octet-stream")
		h.Set(headerLength, strconv.Itoa(header))
	}
	first, _, _ := strings.Cut(r.Header.Get("Accept-Encoding"), ",")
	var to io.WriteCloser
	switch strings.TrimSpace(first) {
	case "gzip":
		to, _ = gzip.NewWriterLevel(w, gzip.BestSpeed)
	case "deflate":
		to, _ = zlib.NewWriterLevel(w, zlib.BestSpeed)
	default:
		h.Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body) // a client that is gone reads no error either
		return nil
	}
	h.Set("Content-Encoding", strings.TrimSpace(first))
	h.Set("Vary", "Accept-Encoding")
	if _, err := to.Write(body); err != nil {
		return nil // likewise
	}
	_ = to.Close()
	return nil
}
