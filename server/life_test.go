package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/op"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

// times is a version of a model that multiplies by its number.
func times(name string, version int64) Source {
	src := written(name, fmt.Sprintf(`graph "times" {
	  opset "" 17
	  input %%x: float32[N,2]
	  const %%by: float32[1] = {%d}
	  %%y: float32[N,2] = Mul@14 (%%x, %%by)
	  output %%y
	}`, version))
	src.Version = version
	return src
}

// broken is a version that cannot be opened.
func broken(name string, version int64) Source {
	return Source{Name: name, Version: version, Open: func() (*weir.Model, error) {
		return nil, errors.New("broken by itself")
	}}
}

// shelf is a catalogue whose offers a test changes.
type shelf struct {
	mu  sync.Mutex
	has map[string]Offer
}

func (c *shelf) put(name string, sources ...Source) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.has == nil {
		c.has = map[string]Offer{}
	}
	c.has[name] = Offer{Name: name, Sources: sources}
}

func (c *shelf) Models(context.Context) (list []Offer, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.has {
		list = append(list, o)
	}
	return list, nil
}

func (c *shelf) Model(ctx context.Context, name string) (Offer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o, ok := c.has[name]; ok {
		return o, nil
	}
	return given(nil).Model(ctx, name)
}

// product asks a version to multiply one.
func product(ctx context.Context, s *Server, name, version string) (float32, string, error) {
	a, err := s.Infer(ctx, name, version, &oip.Request{Inputs: []oip.Input{{Name: "x",
		Tensor: tensor.From([]float32{1, 1}, 1, 2)}}})
	if err != nil {
		return 0, "", err
	}
	defer a.Close()
	return tensor.As[float32](a.Outputs[0].Tensor)[1], a.Version, nil
}

// lines is the index in short.
func lines(s *Server) (list []string) {
	for _, e := range s.Index(false) {
		line := e.Name + "/" + e.Version + " " + e.State
		if e.Reason != "" {
			line += ": " + e.Reason
		}
		list = append(list, line)
	}
	return list
}

// TestVersions: versions are served side by side; requests that name none go to the newest, and all
// that is told of models knows them all.
func TestVersions(t *testing.T) {
	s := begin(t, Options{}, times("m", 10), times("m", 2), times("other", 1), times("m", 9))
	for version, want := range map[string]float32{"": 10, "2": 2, "9": 9, "10": 10} {
		if y, by, err := product(t.Context(), s, "m", version); y != want || err != nil ||
			by != fmt.Sprint(want) {
			t.Errorf("version %q is %v, of version %s (%v)", version, y, by, err)
		}
	}
	_, _, err := product(t.Context(), s, "m", "3")
	if oip.KindOf(err) != oip.NotFound || !strings.Contains(err.Error(), "it has 2, 9, 10") {
		t.Errorf("a version that is not there: %v", err)
	}
	s.mu.Lock()
	s.model("away").others[0] = standing{stateUnavailable, unloaded}
	s.mu.Unlock()
	for version, want := range map[string]oip.Kind{"": oip.Unavailable, "0": oip.NotFound,
		"x": oip.NotFound, "00": oip.NotFound, "1": oip.NotFound} {
		if _, err := s.Metadata("away", version); oip.KindOf(err) != want {
			t.Errorf("version %q of a model that is not served: %v", version, err)
		}
	}
	for _, version := range []string{"", "9"} {
		m, err := s.Metadata("m", version)
		if want := []string{"2", "9", "10"}; !slices.Equal(m.Versions, want) || err != nil {
			t.Errorf("versions %v (%v)", m.Versions, err)
		}
	}
	if got, want := lines(s), []string{"away/ UNAVAILABLE: unloaded", "m/2 READY", "m/9 READY",
		"m/10 READY", "other/1 READY"}; !slices.Equal(got, want) {
		t.Errorf("index %v", got)
	}
	if m := s.Models(); len(m) != 2 || m[0].Name != "m" || m[1].Name != "other" {
		t.Errorf("models %v", m)
	}
	for path, want := range map[string]string{"/v2/models/m/stats": "2 9 10",
		"/v2/models/m/versions/9/stats": "9", "/v2/models/stats": "2 9 10 1"} {
		var numbers []string
		for _, st := range stats(t, s, path) {
			numbers = append(numbers, st.Version)
		}
		if got := strings.Join(numbers, " "); got != want {
			t.Errorf("%s tells of %s", path, got)
		}
	}
	if c, err := s.Config("m", "2"); c == nil || err != nil {
		t.Errorf("configuration: %v", err)
	}
}

// TestShares: what is promised of time is the newest version's, and goes on to the next; the others
// share the class.
func TestShares(t *testing.T) {
	from := &shelf{}
	from.put("m", times("m", 1), times("m", 2))
	s := begin(t, Options{Catalogue: from}, times("m", 1), times("m", 2))
	if _, err := s.SetShare("m", weir.Share{Class: weir.Latency, Compute: 0.7}); err != nil {
		t.Fatal(err)
	}
	has := func(want ...string) {
		t.Helper()
		var got []string
		for _, j := range s.Status().Jobs {
			got = append(got, fmt.Sprintf("%s %v %.1f", j.Name, j.Share.Class, j.Share.Compute))
		}
		if !slices.Equal(got, want) {
			t.Errorf("jobs %q, want %q", got, want)
		}
	}
	has("m/1 latency 0.0", "m/2 latency 0.7")
	one := times("m", 1)
	from.put("m", one, times("m", 3))
	if err := s.LoadModel(t.Context(), "m", nil); err != nil {
		t.Fatal(err)
	}
	s.background.Wait()
	has("m/1~2 latency 0.0", "m/3 latency 0.7")
}

// TestWarmsUp: a version is run before its first request where the server begins, and where it
// takes over from another; not where nothing is served, whose first request would wait for that.
func TestWarmsUp(t *testing.T) {
	var runs atomic.Int64
	count := weir.Operator{Domain: "test", Name: "Count", Inputs: 1, Random: true,
		Eval: func(c *op.Eval) error {
			runs.Add(1)
			y, err := c.Output(0, tensor.Float32, c.In[0].Shape)
			if err == nil {
				copy(y.Data, c.In[0].Data)
			}
			return err
		}}
	from := &shelf{}
	from.put("m", computed("m", 1, count))
	s := begin(t, Options{Catalogue: from}, computed("other", 1, count))
	load := func(what string, want int64) {
		t.Helper()
		before := runs.Load()
		if err := s.LoadModel(t.Context(), "m", nil); err != nil {
			t.Fatal(err)
		}
		s.background.Wait()
		if n := runs.Load() - before; n != want {
			t.Errorf("%s: %d runs, want %d", what, n, want)
		}
	}
	if n := runs.Load(); n != 1 {
		t.Errorf("where the server begins: %d runs, want 1", n)
	}
	load("of a model that is not served", 0)
	from.put("m", computed("m", 2, count))
	load("of the next version", 1)
	if err := s.UnloadModel(t.Context(), "m", nil); err != nil {
		t.Fatal(err)
	}
	load("of a model that was served once", 0)
}

// TestLoadAndUnload: a model is loaded, changed, unloaded and loaded again while the server runs;
// what it held is given back to the byte, and the index tells where it stands.
func TestLoadAndUnload(t *testing.T) {
	from := &shelf{}
	from.put("m", times("m", 1))
	s := begin(t, Options{Catalogue: from}, times("other", 7))
	before := s.Status()
	is := func(what string, want ...string) {
		t.Helper()
		s.background.Wait()
		if got := lines(s); !slices.Equal(got, append(want, "other/7 READY")) {
			t.Errorf("%s: index %q, want %q", what, got, want)
		}
	}
	do := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, _, err := product(t.Context(), s, "m", ""); oip.KindOf(err) != oip.NotFound {
		t.Errorf("before it is loaded: %v", err)
	}
	do("load", s.LoadModel(t.Context(), "m", nil))
	is("loaded", "m/1 READY")
	from.put("m", times("m", 2))
	do("load another", s.LoadModel(t.Context(), "m", nil))
	is("the next version", "m/2 READY")
	if y, _, err := product(t.Context(), s, "m", ""); y != 2 || err != nil {
		t.Errorf("then it answers %v (%v)", y, err)
	}
	from.put("m", broken("m", 3))
	if err := s.LoadModel(t.Context(), "m", nil); err == nil ||
		!strings.Contains(err.Error(), "version 3: broken by itself") {
		t.Errorf("a broken version: %v", err)
	}
	is("a broken one", "m/2 READY", "m/3 UNAVAILABLE: model m, version 3: broken by itself")
	if _, _, err := product(t.Context(), s, "m", "3"); oip.KindOf(err) != oip.Unavailable ||
		!strings.Contains(err.Error(), "broken by itself") {
		t.Errorf("a request for it: %v", err)
	}
	from.put("m", broken("m", 2))
	if err := s.LoadModel(t.Context(), "m", nil); err == nil {
		t.Error("a broken file in the place of the one that is served is no error")
	}
	is("broken anew", "m/2 READY: model m, version 2: broken by itself")
	do("unload", s.UnloadModel(t.Context(), "m", nil))
	is("unloaded", "m/2 UNAVAILABLE: unloaded")
	if _, _, err := product(t.Context(), s, "m", ""); oip.KindOf(err) != oip.Unavailable ||
		!strings.Contains(err.Error(), "unloaded") {
		t.Errorf("a request for what is unloaded: %v", err)
	}
	if ready, err := s.ModelReady("m", ""); ready || err != nil {
		t.Errorf("ready: %v (%v)", ready, err)
	}
	if now := s.Status(); now.Promised != before.Promised || now.Held != before.Held ||
		len(now.Jobs) != len(before.Jobs) {
		t.Errorf("promised %v, held %v, %d jobs; before %v, %v, %d", now.Promised, now.Held,
			len(now.Jobs), before.Promised, before.Held, len(before.Jobs))
	}
	do("unload again", s.UnloadModel(t.Context(), "m", nil))
	from.put("m", times("m", 4), times("m", 5))
	do("load again", s.LoadModel(t.Context(), "m", nil))
	is("again", "m/4 READY", "m/5 READY")
	if !s.Ready() {
		t.Error("what failed later has ended readiness")
	}
	for what, err := range map[string]error{"load": s.LoadModel(t.Context(), "no", nil),
		"unload":   s.UnloadModel(t.Context(), "no", nil),
		"rollback": s.Rollback(t.Context(), "no")} {
		if oip.KindOf(err) != oip.NotFound {
			t.Errorf("%s of no model: %v", what, err)
		}
	}
}

// TestRollback: what was served before is served again, and once more it goes forth.
func TestRollback(t *testing.T) {
	from, changed := &shelf{}, false
	one := times("m", 1)
	one.Stale = func() bool { return changed }
	from.put("m", one)
	s := begin(t, Options{Catalogue: from}, one)
	if err := s.Rollback(t.Context(), "m"); oip.KindOf(err) != oip.Invalid {
		t.Errorf("without a version before: %v", err)
	}
	from.put("m", times("m", 2))
	if err := s.LoadModel(t.Context(), "m", nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []float32{1, 2, 1, 2} {
		if err := s.Rollback(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		if y, _, err := product(t.Context(), s, "m", ""); y != want || err != nil {
			t.Errorf("rolled back to %v (%v), want %v", y, err, want)
		}
	}
	changed = true
	if err := s.Rollback(t.Context(), "m"); oip.KindOf(err) != oip.Invalid ||
		!strings.Contains(err.Error(), "version 1 is no longer") {
		t.Errorf("to what has changed: %v", err)
	}
	if y, _, err := product(t.Context(), s, "m", ""); y != 2 || err != nil {
		t.Errorf("then it answers %v (%v)", y, err)
	}
}

// TestMarks: a version whose mark is as it was goes on.
func TestMarks(t *testing.T) {
	src := times("m", 1)
	src.Mark = "a"
	from := &shelf{}
	from.put("m", src)
	s := begin(t, Options{Catalogue: from}, src)
	had, _ := s.look("m", "")
	for _, c := range []struct {
		mark string
		same bool
	}{{"a", true}, {"b", false}} {
		src.Mark = c.mark
		from.put("m", src)
		if err := s.LoadModel(t.Context(), "m", nil); err != nil {
			t.Fatal(err)
		}
		if now, _ := s.look("m", ""); (now == had) != c.same {
			t.Errorf("mark %s: the same is %v", c.mark, now == had)
		}
	}
}

// TestSwapsUnderLoad: while a model is swapped again and again, each request is answered by one
// version or the other, and none is lost.
func TestSwapsUnderLoad(t *testing.T) {
	from := &shelf{}
	from.put("m", times("m", 2))
	s := begin(t, Options{Catalogue: from}, times("m", 1))
	if err := s.LoadModel(t.Context(), "m", nil); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var clients sync.WaitGroup
	answers := map[float32]int{}
	var mu sync.Mutex
	came := make(chan struct{}, 1) // an answer
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				y, by, err := product(t.Context(), s, "m", "")
				if err != nil || by != fmt.Sprint(y) {
					t.Errorf("%v of version %s: %v", y, by, err)
				}
				mu.Lock()
				answers[y]++
				mu.Unlock()
				select {
				case came <- struct{}{}:
				default:
				}
			}
		})
	}
	for range 20 {
		for range 10 {
			<-came
		}
		if err := s.Rollback(t.Context(), "m"); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	clients.Wait()
	if answers[1] == 0 || answers[2] == 0 {
		t.Errorf("answers %v", answers)
	}
	s.background.Wait()
	if jobs := s.Status().Jobs; len(jobs) != 1 {
		t.Errorf("%d jobs are left", len(jobs))
	}
}

// TestRepository: Triton's requests to load and unload over HTTP.
func TestRepository(t *testing.T) {
	s := begin(t, Options{}, times("m", 1))
	for _, c := range []struct {
		path, body string
		status     int
		says       string
	}{
		{"m/unload", `{"parameters":{"unload_dependents":false}}`, 200, ""},
		{"m/load", ``, 200, ""},
		{"m/load", `{"parameters":{}}`, 200, ""},
		{"m/load", `{"parameters":3}`, 400, "no JSON object with parameters"},
		{"no/load", ``, 404, "failed to load"},
		{"no/unload", ``, 404, "unknown model"},
	} {
		r := ask(s, "POST", "/v2/repository/models/"+c.path, []byte(c.body))
		if b := string(all(t, r)); r.StatusCode != c.status || !strings.Contains(b, c.says) ||
			c.status == 200 && b != "" {
			t.Errorf("%s %s: %s %s", c.path, c.body, r.Status, b)
		}
	}
}
