package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

// TestInfer asks a server for the digit that a picture shows.
func TestInfer(t *testing.T) {
	s, err := server.New(server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.LoadAll(t.Context(), []server.Source{{Name: "digits", Version: 1,
		Open: func() (*weir.Model, error) { return weir.Load(digits.Model) }}}); err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	defer h.Close()
	c := &Client{URL: h.URL}
	m, err := c.Metadata(t.Context(), "digits", "")
	if err != nil || len(m.Inputs) != 1 || m.Inputs[0].Name != "image" {
		t.Fatalf("metadata: %+v, %v", m, err)
	}
	images, err := digits.Images()
	if err != nil {
		t.Fatal(err)
	}
	r := &oip.Request{ID: "a", Inputs: []oip.Input{{Name: "image",
		Tensor: tensor.From(digits.Input(images[0]), 1, 1, 8, 8)}}}
	p, err := Prepare("digits", "1", r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Infer(t.Context(), p)
	if err != nil || got.ID != "a" || got.Model != "digits" || !got.Outputs[0].Binary {
		t.Fatalf("got %+v, %v", got, err)
	}
	values := tensor.As[float32](got.Outputs[0].Tensor)
	for i, v := range values {
		if v > values[0] {
			t.Errorf("the first picture is a 0, and %d has %v: %v", i, v, values)
		}
	}
	if err := c.Send(t.Context(), p); err != nil {
		t.Error(err)
	}
	var said *Error
	for version, want := range map[string]int{"2": 404} {
		p, err := Prepare("digits", version, r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = c.Infer(t.Context(), p); !errors.As(err, &said) || said.Status != want {
			t.Errorf("version %s: %v", version, err)
		}
	}
}

// TestSaid: what a server says in place of an answer is the error, with its kind.
func TestSaid(t *testing.T) {
	answers := map[string]func(w http.ResponseWriter){
		"503 Service Unavailable": func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(503)
			fmt.Fprint(w, `{"error":"full"}`)
		},
		"502 Bad Gateway":           func(w http.ResponseWriter) { w.WriteHeader(502) },
		"no answer of the protocol": func(w http.ResponseWriter) { fmt.Fprint(w, "hello") },
		"cut off": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "{")
		},
		"timeout": func(http.ResponseWriter) { time.Sleep(20 * time.Millisecond) },
	}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Error("no token was sent")
		}
		answers[r.URL.Query().Get("kind")](w)
	}))
	defer h.Close()
	for kind := range answers {
		c := &Client{URL: h.URL, Token: "secret"}
		p := &Prepared{path: "/?kind=" + url.QueryEscape(kind), header: "0"}
		ctx, cancel := context.WithCancel(t.Context())
		if kind == "timeout" {
			ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
		}
		_, err := c.Infer(ctx, p)
		cancel()
		if got := Kind(err); got != kind {
			t.Errorf("%s: %s (%v)", kind, got, err)
		}
		var said *Error
		if kind[0] == '5' && (!errors.As(err, &said) || said.Status/100 != 5 ||
			said.Status == 503 && (said.Text != "full" || said.RetryAfter != 3*time.Second)) {
			t.Errorf("%s: %+v", kind, said)
		}
	}
	gone := h.URL
	h.Close()
	err := (&Client{URL: gone}).Send(t.Context(), &Prepared{path: "/"})
	if got := Kind(err); got != "refused" {
		t.Errorf("%s: %v", got, err)
	}
}
