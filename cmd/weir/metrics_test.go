package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestUpMetrics: metrics are on a port of their own, which answers nothing else, or on that of the
// server, which has them in any case.
func TestUpMetrics(t *testing.T) {
	get := func(url string) (int, string) {
		r, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(text)
	}
	for _, own := range []string{"localhost:0", ""} {
		printed, end := up(t, "--json", "--metrics", own)
		var got struct{ HTTP, Metrics string }
		if err := json.NewDecoder(printed).Decode(&got); err != nil {
			t.Fatal(err)
		}
		if same := got.HTTP == got.Metrics; same != (own == "") {
			t.Errorf("--metrics %q: %+v", own, got)
		}
		for _, url := range []string{got.HTTP, got.Metrics} {
			code, text := get(url + "/metrics")
			if code != 200 || !strings.Contains(text, "\nweir_ready 1\n") {
				t.Errorf("%s/metrics: status %d", url, code)
			}
		}
		if code, _ := get(got.Metrics + "/v2"); (code == 200) != (own == "") {
			t.Errorf("--metrics %q: /v2 there: status %d", own, code)
		}
		if code := end(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
}

// TestUpMetricsTaken: an address that the user names must be free.
func TestUpMetricsTaken(t *testing.T) {
	on, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer on.Close()
	var talk bytes.Buffer
	if code := execute(t.Context(), []string{"up", "--http", "localhost:0", "--metrics",
		on.Addr().String()}, nil, io.Discard, &talk); code != 1 ||
		!strings.Contains(talk.String(), "--metrics "+on.Addr().String()) {
		t.Errorf("exit code %d: %s", code, talk.String())
	}
}

// TestWidest: accounts are demanded where others can reach any of the addresses.
func TestWidest(t *testing.T) {
	listen := func(address string) net.Listener {
		on, err := net.Listen("tcp4", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = on.Close() })
		return on
	}
	near, far := listen("127.0.0.1:0"), listen("0.0.0.0:0")
	for _, c := range []struct {
		on, metrics net.Listener
		loopback    bool
	}{{near, nil, true}, {far, nil, false}, {near, near, true}, {near, far, false},
		{far, near, false}} {
		if got := widest(c.on, c.metrics).IsLoopback(); got != c.loopback {
			t.Errorf("%v and %v: %v", c.on, c.metrics, got)
		}
	}
}
