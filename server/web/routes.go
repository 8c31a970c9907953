package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/weirgpu/weir/graph/stages"
	"github.com/weirgpu/weir/internal/page"
	"github.com/weirgpu/weir/server/oip"
)

//go:embed assets
var assets embed.FS

// policyOfContent allows what is part of the page, pictures that a person chose, and requests to
// where the page is from. The page makes no other, and no other page may put it into a frame.
const policyOfContent = "default-src 'none'; script-src 'self'; style-src 'self'; " +
	"img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'"

// Routes are the endpoints of the page by their patterns.
func (p *Page) Routes() map[string]http.Handler {
	all := files()
	for pattern, h := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /v1/state":                     p.getState,
		"GET /v1/events":                    p.getEvents,
		"GET /v1/models/{model}/history":    p.getHistory,
		"GET /v1/models/{model}/graph":      p.getGraph,
		"POST /v1/policy":                   p.postPolicy,
		"POST /v1/models/{model}/share":     p.postShare,
		"POST /v1/models/{model}/load":      p.postLoad,
		"POST /v1/models/{model}/unload":    p.postUnload,
		"POST /v1/programs/{program}/share": p.postProgram,
	} {
		all[pattern] = p.answer(h)
	}
	return all
}

// answer makes an error of an endpoint its answer.
func (p *Page) answer(h func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := h(w, r)
		if err == nil {
			return
		}
		code := status(err)
		if d := oip.RetryAfter(err); d > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(d.Seconds()))))
		}
		if code == http.StatusInternalServerError {
			p.o.Log.Error("request failed", "path", r.URL.Path, "error", err)
		}
		line, _, _ := strings.Cut(err.Error(), "\n")
		reply(w, code, encode(oip.Failure{Error: line}))
	}
}

// types are the media types of the page's files. Those of a host may be others.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// files serves what the page is made of: base.css is the style sheet of all pages of weir.
func files() map[string]http.Handler {
	all := map[string]http.Handler{"/assets/base.css": file("base.css", []byte(page.Style()))}
	var index http.Handler
	entries, err := fs.ReadDir(assets, "assets")
	for _, e := range entries {
		var b []byte
		if b, err = assets.ReadFile("assets/" + e.Name()); err != nil {
			break
		}
		if e.Name() == "index.html" {
			index = file(e.Name(), b)
			continue
		}
		all["/assets/"+e.Name()] = file(e.Name(), b)
	}
	if err != nil {
		panic(err) // they are in the program
	}
	return map[string]http.Handler{"GET /{$}": index,
		"GET /assets/": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if h := all[r.URL.Path]; h != nil {
				h.ServeHTTP(w, r)
				return
			}
			reply(w, http.StatusNotFound, encode(oip.Failure{Error: "the page has no such file"}))
		})}
}

// file serves one file. Browsers ask each time whether it has changed.
func file(name string, b []byte) http.Handler {
	sum := sha256.Sum256(b)
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", types[path.Ext(name)])
		h.Set("ETag", tag)
		h.Set("Cache-Control", "no-cache")
		guard(h, policyOfContent)
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(b))
	})
}

// guard sets what browsers are to heed of a document.
func guard(h http.Header, policy string) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

func (p *Page) getHistory(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("model")
	h, ok := p.history(name)
	if !ok {
		return oip.Faultf(oip.NotFound, "there is no model %.200q", name)
	}
	reply(w, http.StatusOK, encode(h))
	return nil
}

// mostNodes is how many nodes a graph may have that is shown: a browser must be able to. A model is
// read for it, with all of its memory; so mostGraphs are drawn at once, and others wait.
const (
	mostNodes  = 20000
	mostGraphs = 2
)

// getGraph answers with the page that weir inspect --dump html writes.
func (p *Page) getGraph(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("model")
	if p.o.Graphs == nil {
		return oip.Faultf(oip.Unsupported, "this server shows no graphs")
	}
	m, err := p.source.Metadata(name, r.FormValue("version"))
	if err != nil {
		return err
	}
	select {
	case p.graphs <- struct{}{}:
		defer func() { <-p.graphs }()
	case <-r.Context().Done():
		return r.Context().Err()
	}
	g, release, err := p.o.Graphs(r.Context(), name, m.Versions[len(m.Versions)-1])
	if errors.Is(err, fs.ErrNotExist) {
		return oip.Faultf(oip.NotFound, "model %s has no file in plain any more whose graph could "+
			"be shown", name)
	}
	if err != nil {
		return fmt.Errorf("model %s: %w", name, err)
	}
	defer release()
	if len(g.Nodes) > mostNodes {
		return oip.Faultf(oip.TooLarge, "the graph of model %s has %d nodes, and "+
			"is shown up to %d: weir inspect --dump text has it", name, len(g.Nodes), mostNodes)
	}
	var b bytes.Buffer
	if err := stages.HTML(&b, name, []stages.Stage{{Name: "as read", Graph: g}}); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", types[".html"])
	h.Set("Cache-Control", "no-store")
	guard(h, "frame-ancestors 'none'") // the document itself says what it may run
	begin(w)
	_, _ = w.Write(b.Bytes()) // a client that is gone reads no error either
	return nil
}
