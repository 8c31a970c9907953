package training_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/training"
)

// TestHeld: a training that was paused or stopped is so after a restart of the server, until it is
// told to go on, or what was kept of that is damaged; it ends with the digest of a run that nobody
// disturbed.
func TestHeld(t *testing.T) {
	path := folder(t, whole)
	name := filepath.Base(filepath.Dir(path))
	want := alone(t, path)
	url := "/v1/train/" + name
	order := func(p *place, what string) {
		t.Helper()
		if code := p.ask(t, "POST", url+"/"+what, "", nil); code != 200 {
			t.Fatalf("%s: %d", what, code)
		}
	}
	p := begin(t, server.Options{}, path)
	for _, o := range []struct {
		order string
		phase training.Phase
	}{{"pause", training.Paused}, {"stop", training.Stopped}} {
		order(p, o.order)
		at := p.until(t, name, in(o.phase)).Update
		p.end(t)
		p = begin(t, server.Options{}, path)
		s := p.until(t, name, in(o.phase))
		p.infer(t)
		if had := s.MemoryBytes > 0; had != (o.phase == training.Paused) || at >= whole {
			t.Errorf("%s after a restart: %+v", o.phase, s)
		}
	}
	p.end(t)
	file := filepath.Join(filepath.Dir(path), "run", "server.json")
	for _, text := range []string{"{", `{"phase":"asleep"}`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p := begin(t, server.Options{}, path)
		if s := p.until(t, name, in(training.Done)); s.Digest != want {
			t.Errorf("%s: digest %s, want %s", text, s.Digest, want)
		}
		p.end(t)
	}
}

// TestCap: a cap of memory below its need has a training go on in less, and keep it over a restart;
// without a cap it takes what it likes again. Weights are the same to the bit.
func TestCap(t *testing.T) {
	const updates = 150 // which last longer than to plan anew, on the way
	path := folder(t, updates)
	name := filepath.Base(filepath.Dir(path))
	want := alone(t, path)
	p := begin(t, server.Options{}, path)
	url := "/v1/train/" + name
	was := p.until(t, name, func(s training.State) bool { return s.Update >= 20 })
	share := func(body string) (s training.State, code int) {
		t.Helper()
		code = p.ask(t, "POST", url+"/share", body, &s)
		return s, code
	}
	most := was.NeedBytes * 19 / 20
	less := fmt.Sprintf(`{"memory_bytes":%d}`, most)
	if s, code := share(less); code != 200 || s.NeedBytes > most || s.WholeBytes != was.NeedBytes {
		t.Fatalf("a cap of %d: %d, %+v", most, code, s)
	}
	var s training.State
	code := p.ask(t, "POST", url+"/pause", "", &s)
	if code != 200 || s.MemoryBytes == 0 || s.MemoryBytes > most || s.Update < was.Update {
		t.Errorf("paused: %d, %+v, the cap is %d", code, s, most)
	}
	for _, bad := range []string{`{"memory_bytes":1000}`, `{"memory_bytes":-1}`, `{"limit":2}`} {
		if s, code := share(bad); code != 400 {
			t.Errorf("%s: %d, %+v", bad, code, s)
		}
	}
	p.end(t)
	p = begin(t, server.Options{}, path)
	if s := p.until(t, name, in(training.Paused)); s.MemoryBytes > most || s.NeedBytes > most {
		t.Errorf("after a restart: %+v", s)
	}
	if s, code := share(`{"memory_bytes":0}`); code != 200 || s.NeedBytes != was.NeedBytes {
		t.Errorf("without a cap: %d, %+v", code, s)
	}
	if code := p.ask(t, "POST", url+"/continue", "", nil); code != 200 {
		t.Error(code)
	}
	if s := p.until(t, name, in(training.Done)); s.Digest != want || s.Update != updates {
		t.Errorf("%+v, want digest %s", s, want)
	}
	b, err := os.ReadFile(filepath.Join(filepath.Dir(path), "run", "server.json"))
	if err != nil || strings.Contains(string(b), "memory") {
		t.Errorf("kept of it: %s, %v", b, err)
	}
}
