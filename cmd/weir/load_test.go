package main

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// TestBenchServer: a server of models is measured over HTTP and gRPC, at a rate and one request
// after another, on one port and by the accounts that it has.
func TestBenchServer(t *testing.T) {
	t.Setenv("LC_ALL", "C")
	state := t.TempDir()
	printed, _ := up(t, "--json", "--no-cache", "--grpc", "localhost:0", "--accounts", "--state",
		state)
	var on struct{ HTTP, GRPC string }
	if err := json.NewDecoder(printed).Decode(&on); err != nil {
		t.Fatal(err)
	}
	grpc := "grpc://" + on.GRPC
	if c := weir(t, "bench", on.HTTP); c.code != 1 || !strings.Contains(c.talk, tokenVariable) {
		t.Errorf("without a token: exit code %d, %s", c.code, c.talk)
	}
	if c := weir(t, "bench", grpc); c.code != 1 || !strings.Contains(c.talk, "Unauthenticated") {
		t.Errorf("without a token: exit code %d, %s", c.code, c.talk)
	}
	firstToken(t, state)
	for _, url := range []string{on.HTTP, grpc} {
		for _, rate := range []string{"200", "0"} {
			got := done(t, "bench", url, "--rate", rate, "--duration", "300ms", "--json",
				"--shape", "image=1x1x8x8", "--deadline", "9s")
			res := got.object(t, "server", "protocol", "model", "per_s", "goodput_per_s",
				"latency_ms", "late_ms", "errors")
			if res["answered"].(float64) < 10 || res["model"] != "digits" ||
				res["in_time"] != res["answered"] || len(res["errors"].(map[string]any)) > 0 {
				t.Errorf("%s: %s", url, got.out)
			}
		}
		for want, args := range map[string][]string{
			"nothing":                 {"--model", "nothing"},
			"no input \"x\"":          {"--input", "x=[1]"},
			"rate -1":                 {"--rate", "-1"},
			"--runs is about a model": {"--runs", "3"},
			"duration of 0s":          {"--duration", "0s"},
			"--ca":                    {"--ca", "/nowhere"},
		} {
			c := weir(t, append([]string{"bench", url}, args...)...)
			if c.code == 0 || !strings.Contains(c.talk, want) {
				t.Errorf("%s %v: exit code %d, %s; want %q", url, args, c.code, c.talk, want)
			}
		}
	}
	for i, width := range []string{"40", "80"} {
		t.Setenv("COLUMNS", width)
		for _, rate := range []string{"0", "100"} {
			got := done(t, "bench", on.HTTP, "--duration", "100ms", "--rate", rate)
			fits(t, "bench "+rate, got.out+got.talk, 40*(i+1), nil)
			if !strings.Contains(got.out, "p99.9") {
				t.Errorf("rate %s: %s", rate, got.out)
			}
		}
	}
	if c := weir(t, "bench", "http://localhost:1"); c.code != 1 || !strings.Contains(c.talk,
		"does not answer") {
		t.Errorf("exit code %d, %s", c.code, c.talk)
	}
	if c := weir(t, "bench", digitsFile(t), "--rate", "3"); c.code != 2 || !strings.Contains(
		c.talk, "--rate is about a server") {
		t.Errorf("exit code %d, %s", c.code, c.talk)
	}
}

// TestInterruptedBenchServer holds that what was measured until Ctrl-C is shown.
func TestInterruptedBenchServer(t *testing.T) {
	printed, _ := up(t, "--json", "--no-cache")
	url := answering(t, printed)
	ctx, cancel := context.WithCancel(t.Context())
	var out, talk strings.Builder
	done := make(chan int)
	go func() {
		done <- execute(ctx, []string{"bench", url, "--duration", "1h", "--rate", "0", "--json"},
			nil, &out, &talk)
	}()
	many := regexp.MustCompile(`(?m)^weir_request_rows_total\{model="digits".* \d{2,}$`)
	for !many.MatchString(read(t, url+"/metrics")) {
	}
	cancel()
	code := <-done
	var res loadResult
	if err := json.Unmarshal([]byte(out.String()), &res); err != nil || res.Answered == 0 ||
		code == 0 || len(res.Errors) > 0 {
		t.Errorf("exit code %d, %v: %s%s", code, err, out.String(), talk.String())
	}
}
