package auth

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/weirgpu/weir/server/audit"
	"github.com/weirgpu/weir/server/oip"
)

// HTTP is middleware that lets next answer what the table of endpoints allows; the context has the
// account ([From]).
func (g *Guard) HTTP(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	for i := range Endpoints {
		e := &Endpoints[i]
		for _, pattern := range e.HTTP {
			mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
				g.serve(w, r, e, next)
			})
		}
	}
	// other methods of known paths come here too, and all that is added without a row
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { g.serveOther(w, r, next) })
	return mux
}

func (g *Guard) serve(w http.ResponseWriter, r *http.Request, e *Endpoint, next http.Handler) {
	if e.Scope == Anyone {
		next.ServeHTTP(w, r)
		return
	}
	a, err := g.account(r.Context(), shown(r))
	model := r.PathValue("model")
	if err == nil {
		err = g.allow(a, e, model)
	}
	if err != nil {
		Fail(w, err)
		return
	}
	r = r.WithContext(g.with(r.Context(), a))
	if !e.Changes {
		next.ServeHTTP(w, r)
		return
	}
	status := &statusWriter{ResponseWriter: w}
	result := cutOff
	defer func() { g.record(r.Context(), e, a.event(e.Name, model, r.URL.Path, result)) }()
	next.ServeHTTP(status, r)
	result = audit.OK
	if status.code >= 400 {
		result = fmt.Sprintf("%s: status %d", audit.Failed, status.code)
	}
}

// serveOther answers what is not in the table: only who may administer the server comes through.
func (g *Guard) serveOther(w http.ResponseWriter, r *http.Request, next http.Handler) {
	a, err := g.account(r.Context(), shown(r))
	switch {
	case err != nil:
		Fail(w, err)
	case a.MayAll(Admin):
		next.ServeHTTP(w, r.WithContext(g.with(r.Context(), a)))
	default:
		g.log.Refused(a.event("what there is not", "", r.Method+" "+r.URL.Path, audit.Refused))
		Fail(w, oip.Faultf(oip.NotFound, "there is no %.20s %.200s", r.Method, r.URL.Path))
	}
}

func shown(r *http.Request) credentials {
	return credentials{r.Header["Authorization"], r.TLS, r.RemoteAddr}
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(code int) {
	if w.code == 0 && code >= 200 {
		w.code = code
	}
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap gives the writer to http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Fail answers with a refusal or another error of this package.
func Fail(w http.ResponseWriter, err error) {
	if wait := oip.RetryAfter(err); wait > 0 {
		seconds := math.Ceil(wait.Seconds())
		w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
	}
	code := status(err)
	if code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	write(w, code, oip.Failure{Error: text})
}
