package jobs

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/store"
)

// A client that sends or reads must get on: by one step within patience, and on average, after as
// much time again, by pace bytes a second.
const (
	patience = 10 * time.Second
	pace     = 128 << 10
	step     = 64 << 10
)

// MostJobs is how many jobs a list has at most.
const MostJobs = 1000

// The answers.
type (
	// List is the answer to GET /v1/jobs.
	List struct {
		Jobs []*Job `json:"jobs"`
	}
	// Lines is the answer to GET /v1/jobs/JOB/log.
	Lines struct {
		Lines []Line `json:"lines"`
	}
)

type handler = func(w http.ResponseWriter, r *http.Request) error

// Routes are the endpoints by their patterns. j may be nil: they then say that the server keeps no
// jobs.
func (j *Jobs) Routes() map[string]http.Handler {
	all := map[string]http.Handler{}
	for pattern, h := range map[string]handler{
		"GET /v1/jobs":               j.getList,
		"POST /v1/jobs":              j.post,
		"GET /v1/jobs/{job}":         j.getJob,
		"DELETE /v1/jobs/{job}":      j.remove,
		"GET /v1/jobs/{job}/log":     j.getLog,
		"GET /v1/jobs/{job}/result":  j.getResult,
		"POST /v1/jobs/{job}/cancel": j.postCancel,
		"POST /v1/jobs/{job}/retry":  j.postRetry,
	} {
		if j == nil {
			h = func(http.ResponseWriter, *http.Request) error {
				return oip.Faultf(oip.Unsupported, "this server keeps no state, which jobs need: "+
					"start it as weir up --state FOLDER")
			}
		}
		all[pattern] = j.answer(h)
	}
	return all
}

// answer makes an error of an endpoint its answer.
func (j *Jobs) answer(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := h(w, r)
		if err == nil {
			return
		}
		code := status(err)
		if d := oip.RetryAfter(err); d > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(d.Seconds()))))
		}
		if code == http.StatusInternalServerError {
			j.o.Log.Error("request failed", "path", r.URL.Path, "error", err)
		}
		reply(w, code, oip.Failure{Error: line(err)})
	})
}

// status is the HTTP status of an error.
func status(err error) int {
	var own *refusal
	switch {
	case errors.As(err, &own):
		return own.status
	case errors.Is(err, ErrInput):
		return http.StatusBadRequest
	case errors.Is(err, ErrNoJob):
		return http.StatusNotFound
	case errors.Is(err, store.ErrFull):
		return http.StatusInsufficientStorage
	case errors.Is(err, weir.ErrClosed):
		return http.StatusServiceUnavailable
	}
	return oip.KindOf(err).Status()
}

// reply writes an answer in JSON.
func reply(w http.ResponseWriter, code int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		panic(err) // bodies are this package's own
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	h.Set("Cache-Control", "no-store")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(patience))
	w.WriteHeader(code)
	_, _ = w.Write(b) // a client that is gone reads no error either
}

// id is the job that a path names.
func id(r *http.Request) (int64, error) {
	n, err := strconv.ParseInt(r.PathValue("job"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("job %.40q: %w: give its number", r.PathValue("job"), ErrNoJob)
	}
	return n, nil
}

func (j *Jobs) getList(w http.ResponseWriter, r *http.Request) error {
	list, err := j.List(r.Context(), MostJobs)
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, List{list})
	return nil
}

func (j *Jobs) getJob(w http.ResponseWriter, r *http.Request) error {
	return j.of(w, r, func(int64) error { return nil })
}

func (j *Jobs) postCancel(w http.ResponseWriter, r *http.Request) error {
	return j.of(w, r, func(n int64) error { return j.Cancel(r.Context(), n) })
}

func (j *Jobs) postRetry(w http.ResponseWriter, r *http.Request) error {
	return j.of(w, r, func(n int64) error { return j.Retry(r.Context(), n) })
}

// of does something with a job, and answers with what it is then.
func (j *Jobs) of(w http.ResponseWriter, r *http.Request, do func(n int64) error) error {
	n, err := id(r)
	if err == nil {
		err = do(n)
	}
	if err != nil {
		return err
	}
	job, err := j.Get(r.Context(), n)
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, job)
	return nil
}

func (j *Jobs) remove(w http.ResponseWriter, r *http.Request) error {
	n, err := id(r)
	if err == nil {
		err = j.Remove(r.Context(), n)
	}
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, struct{}{})
	return nil
}

func (j *Jobs) getLog(w http.ResponseWriter, r *http.Request) error {
	n, err := id(r)
	if err != nil {
		return err
	}
	after := int64(0)
	if text := r.FormValue("after"); text != "" {
		if after, err = strconv.ParseInt(text, 10, 64); err != nil {
			return oip.Faultf(oip.Invalid, "after=%.40q: give the number of a line", text)
		}
	}
	list, err := j.Lines(r.Context(), n, after)
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, Lines{list})
	return nil
}

// post makes a job of the body, a .npz file; the query says of which model.
func (j *Jobs) post(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	a := Asked{Key: r.Header.Get("Idempotency-Key"), Name: q.Get("name"), Model: q.Get("model"),
		Version: q.Get("version"), Outputs: q["output"], Size: r.ContentLength}
	for name := range q {
		if !strings.Contains(" name model version output ", " "+name+" ") {
			return oip.Faultf(oip.Invalid, "query %.40q is not known: there are model, version, "+
				"output and name", name)
		}
	}
	var err error
	if a.Digest, err = contentDigest(r.Header.Get("Content-Digest")); err != nil {
		return err
	}
	body := &upload{j: j, from: r.Body, to: http.NewResponseController(w), began: time.Now()}
	job, made, err := j.Make(r.Context(), a, body)
	if err != nil {
		if !body.ended {
			w.Header().Set("Connection", "close") // what is left of the body is not waited for
		}
		return err
	}
	code := http.StatusOK
	if made {
		code = http.StatusCreated
	}
	w.Header().Set("Location", fmt.Sprint("/v1/jobs/", job.ID))
	reply(w, code, job)
	return nil
}

// contentDigest reads a header Content-Digest (RFC 9530) with a SHA-256; others are passed over.
func contentDigest(text string) (store.Digest, error) {
	for item := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(item), "=")
		if name != "sha-256" {
			continue
		}
		b, err := base64.StdEncoding.DecodeString(strings.Trim(value, ":"))
		if err != nil || len(b) != 32 {
			return "", oip.Faultf(oip.Invalid, "Content-Digest %.80q: give sha-256=:BASE64:", text)
		}
		return store.ParseDigest("sha256:" + hex.EncodeToString(b))
	}
	return "", nil
}

// upload is a file that a client sends, who must get on.
type upload struct {
	j     *Jobs
	from  io.Reader
	to    *http.ResponseController
	began time.Time
	n     int64
	ended bool
}

// Read implements io.Reader.
func (u *upload) Read(p []byte) (int, error) {
	if u.j.stop.Err() != nil {
		return 0, errStopping
	}
	due := u.began.Add(patience + time.Duration(u.n)*(time.Second/pace))
	if next := time.Now().Add(patience); next.Before(due) {
		due = next
	}
	_ = u.to.SetReadDeadline(due) // who has no deadlines is no connection
	n, err := u.from.Read(p[:min(len(p), step)])
	u.n += int64(n)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = oip.Faultf(oip.TooSlow, "the file came too slowly, of which %d bytes came: send a "+
			"part each %v, and %d bytes a second", u.n, patience, pace)
	case err == io.EOF:
		u.ended = true
		_ = u.to.SetReadDeadline(time.Time{})
	case err != nil:
		err = fmt.Errorf("%w: the body: %w", oip.ErrRequest, err)
	}
	return n, err
}

// getResult answers with the result, or the part of it that the client asks for (RFC 9110, 14).
func (j *Jobs) getResult(w http.ResponseWriter, r *http.Request) error {
	n, err := id(r)
	if err != nil {
		return err
	}
	job, f, err := j.Result(r.Context(), n)
	if err != nil {
		return err
	}
	defer f.Close()
	h := w.Header()
	h.Set("Content-Type", "application/zip")
	h.Set("Content-Disposition", fmt.Sprintf("attachment; filename=\"job-%d.npz\"", n))
	h.Set("ETag", fmt.Sprintf("%q", job.Result))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	to := &download{ResponseWriter: w, to: http.NewResponseController(w), began: time.Now()}
	http.ServeContent(to, r, "", time.Time{}, f)
	return nil
}

// download is an answer to a client who must get on.
type download struct {
	http.ResponseWriter
	to    *http.ResponseController
	began time.Time
	n     int64
}

// Write implements io.Writer.
func (d *download) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		due := d.began.Add(patience + time.Duration(d.n)*(time.Second/pace))
		if next := time.Now().Add(patience); next.Before(due) {
			due = next
		}
		_ = d.to.SetWriteDeadline(due)
		var done int
		done, err = d.ResponseWriter.Write(p[n:min(len(p), n+step)])
		n, d.n = n+done, d.n+int64(done)
	}
	return n, err
}
