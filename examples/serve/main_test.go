package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
)

// TestServe: a picture is answered; what a request has wrong, no time and no model have their
// status each.
func TestServe(t *testing.T) {
	m, err := weir.Load(digits.Model)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	images, err := digits.Images()
	if err != nil {
		t.Fatal(err)
	}
	labels, err := digits.Labels()
	if err != nil {
		t.Fatal(err)
	}
	picture, err := json.Marshal(map[string]any{"pixels": digits.Input(images[0])})
	if err != nil {
		t.Fatal(err)
	}
	h := &handler{model: m, deadline: time.Minute}
	ask := func(body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/classify", strings.NewReader(body)))
		return w
	}
	w := ask(string(picture))
	var answer struct{ Probabilities []float32 }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK ||
		len(answer.Probabilities) != 10 || answer.Probabilities[labels[0]] < 0.5 {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	for body, text := range map[string]string{`{"pixels": [1, 2]}`: "2", `{`: "EOF",
		`{"pixels": "black"}`: "pixels", `{}`: "0"} {
		if w := ask(body); w.Code != http.StatusBadRequest ||
			!strings.Contains(w.Body.String(), text) {
			t.Errorf("%s: status %d: %s", body, w.Code, w.Body)
		}
	}
	h.deadline = -1
	if w := ask(string(picture)); w.Code != http.StatusServiceUnavailable ||
		w.Header().Get("Retry-After") == "" {
		t.Errorf("without time: status %d: %s", w.Code, w.Body)
	}
	h.deadline = time.Minute
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if w := ask(string(picture)); w.Code != http.StatusServiceUnavailable {
		t.Errorf("a model that is closed: status %d: %s", w.Code, w.Body)
	}
}
