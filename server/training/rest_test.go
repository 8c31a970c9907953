package training_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/training"
)

// TestPausedAndRecalled: a training whose memory is recalled while it is paused does not go on by
// itself once there is room again.
func TestPausedAndRecalled(t *testing.T) {
	path := folder(t, whole)
	name := filepath.Base(filepath.Dir(path))
	before := begin(t, server.Options{})
	model, need := before.Status().Promised, needs(t, before, path)
	before.end(t)
	p := begin(t, server.Options{Host: weir.HostOptions{Memory: model + need}}, path)
	url := "/v1/train/" + name
	p.until(t, name, func(s training.State) bool { return s.Update >= 20 })
	if code := p.ask(t, "POST", url+"/pause", "", nil); code != 200 {
		t.Fatalf("paused: %d", code)
	}
	if err := p.LoadAll(t.Context(), []server.Source{digitsOf("more")}); err != nil {
		t.Fatal(err)
	}
	s := p.until(t, name, func(s training.State) bool { return s.Phase != training.Paused })
	if s.Phase != training.Stopped || !strings.Contains(s.Reason, "needed by a model") {
		t.Errorf("recalled while it was paused: %+v", s)
	}
	if err := p.UnloadModel(t.Context(), "more", nil); err != nil {
		t.Fatal(err)
	}
	if code := p.ask(t, "POST", url+"/continue", "", nil); code != 200 {
		t.Errorf("continued: %d", code)
	}
	p.until(t, name, in(training.Done))
}

// TestTermsWithoutMemory: terms that a training cannot have are refused while it is stopped, too,
// and do not end it when it goes on. A limit that leaves next to nothing can be taken back, and
// does not hold up the end of the server.
func TestTermsWithoutMemory(t *testing.T) {
	path := folder(t, whole)
	name := filepath.Base(filepath.Dir(path))
	p := begin(t, server.Options{}, path)
	url := "/v1/train/" + name
	p.until(t, name, func(s training.State) bool { return s.Update >= 20 })
	if code := p.ask(t, "POST", url+"/stop", "", nil); code != 200 {
		t.Fatalf("stopped: %d", code)
	}
	p.until(t, name, in(training.Stopped))
	for _, bad := range []string{`{"memory_bytes":1000}`, `{"memory_bytes":-1}`, `{"compute":2}`,
		`{"limit":-0.5}`, `{"compute":0.5,"limit":0.4}`} {
		if code := p.ask(t, "POST", url+"/share", bad, nil); code != 400 {
			t.Errorf("%s: %d", bad, code)
		}
	}
	// less than the weight of what says nothing
	small := func() {
		t.Helper()
		if code := p.ask(t, "POST", url+"/share", `{"compute":0,"limit":1e-9}`, nil); code != 200 {
			t.Errorf("a small limit: %d", code)
		}
	}
	small()
	if code := p.ask(t, "POST", url+"/continue", "", nil); code != 200 {
		t.Errorf("continued: %d", code)
	}
	if s := p.until(t, name, func(s training.State) bool {
		return s.Phase != training.Stopped
	}); s.Phase != training.Running {
		t.Errorf("with terms from before: %+v", s)
	}
	at := p.until(t, name, in(training.Running)).Update
	if code := p.ask(t, "POST", url+"/share", `{"limit":1}`, nil); code != 200 {
		t.Errorf("no limit: %d", code)
	}
	p.until(t, name, func(s training.State) bool { return s.Update > at })
	small()
}
