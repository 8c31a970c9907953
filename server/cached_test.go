package server

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

// TestCached: equal requests have the answer of the first, which is not computed again; others, of
// other accounts and of a version that was loaded anew, have not. Statistics and metrics count it.
func TestCached(t *testing.T) {
	config := `response_cache { enable: true }`
	from := &shelf{}
	from.put("m", configured(t, times("m", 2), config))
	s := begin(t, Options{Cache: 1 << 20, Catalogue: from}, configured(t, times("m", 2), config),
		times("plain", 3))
	count := func(what string, hits, misses, executions uint64) {
		t.Helper()
		list, err := s.Statistics("m", "")
		if err != nil {
			t.Fatal(err)
		}
		st := list[0]
		if r := st.Requests; r.CacheHit.Count != hits || r.CacheMiss.Count != misses ||
			st.Executions != executions || r.Success.Count != hits+misses ||
			r.Infer.Count != misses || r.Input.Count != misses || r.Output.Count != misses ||
			r.Queue.Count != hits+misses || hits > 0 && r.CacheHit.NS == 0 {
			t.Errorf("%s: %+v", what, st)
		}
	}
	x := func(a float32) *oip.Request {
		return &oip.Request{Inputs: []oip.Input{{Name: "x",
			Tensor: tensor.From([]float32{a, 1}, 1, 2)}}}
	}
	ask := func(account string, r *oip.Request) float32 {
		t.Helper()
		ctx := auth.With(t.Context(), &auth.Account{Name: account})
		a, err := s.Infer(ctx, "m", "", r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		return tensor.As[float32](a.Outputs[0].Tensor)[0]
	}
	for range 3 {
		if y := ask("ann", x(7)); y != 14 {
			t.Errorf("7 times 2 is %v", y)
		}
	}
	count("the same", 2, 1, 1)
	ask("ann", x(0))
	if y := ask("ann", x(float32(math.Copysign(0, -1)))); !math.Signbit(float64(y)) {
		t.Errorf("-0 times 2 is %v", y)
	}
	count("another bit", 2, 3, 3)
	ask("bob", x(7))
	count("another account", 2, 4, 4)
	classes := x(7)
	classes.Outputs = []oip.Output{{Name: "y", Classes: 1}}
	a, err := s.Infer(auth.With(t.Context(), &auth.Account{Name: "ann"}), "m", "", classes)
	if err != nil || a.Outputs[0].Tensor.Strings[0] != "14.000000:0" {
		t.Errorf("classified: %+v (%v)", a, err)
	}
	a.Close()
	count("asked for in another way", 3, 4, 4)
	text := string(s.rec.AppendText(nil, s))
	for _, line := range []string{`nv_cache_num_hits_per_model{model="m",version="2"} 3`,
		`nv_cache_num_misses_per_model{model="m",version="2"} 4`, "weir_kept_answers 4"} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("the metrics have no %s", line)
		}
	}
	if err := s.LoadModel(t.Context(), "m", nil); err != nil { // has no mark: loaded anew
		t.Fatal(err)
	}
	s.background.Wait()
	if n, bytes := s.Kept(); n != 0 || bytes != 0 {
		t.Errorf("%d answers of %d bytes of a version that is gone", n, bytes)
	}
	if y, _, err := product(t.Context(), s, "plain", ""); y != 3 || err != nil {
		t.Errorf("%v (%v)", y, err)
	}
	if n, _ := s.Kept(); n != 0 {
		t.Error("an answer is kept of a model that says nothing of it")
	}
}

// TestCachedTakesNoLease: an answer that is kept comes while the model is busy with another
// request.
func TestCachedTakesNoLease(t *testing.T) {
	entered, leave := make(chan struct{}, 9), make(chan struct{}, 9)
	src := held("hold", entered, leave, nil)
	s := begin(t, Options{Cache: 1 << 20}, configured(t, src, `response_cache { enable: true }`))
	leave <- struct{}{}
	first := ask(s, "POST", "/v2/models/hold/infer", []byte(holdBody))
	want := all(t, first)
	<-entered
	busy := make(chan []byte)
	other := []byte(`{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[99]}]}`)
	go func() { busy <- all(t, ask(s, "POST", "/v2/models/hold/infer", other)) }()
	<-entered // and stays
	r := ask(s, "POST", "/v2/models/hold/infer", []byte(holdBody))
	if got := all(t, r); r.StatusCode != 200 || !bytes.Equal(got, want) {
		t.Errorf("%s %s, want %s", r.Status, got, want)
	}
	leave <- struct{}{}
	if got := <-busy; !bytes.Contains(got, []byte("99")) {
		t.Errorf("the other: %s", got)
	}
}

// TestCachedBound: answers have no more bytes than they may, and a model whose answers depend on
// what was before is refused; without a cache the configuration says so.
func TestCachedBound(t *testing.T) {
	config := `response_cache { enable: true }`
	s := begin(t, Options{Cache: 4000}, configured(t, times("m", 2), config))
	for i := range 50 {
		a, err := s.Infer(t.Context(), "m", "", &oip.Request{Inputs: []oip.Input{{Name: "x",
			Tensor: tensor.From([]float32{float32(i), 1}, 1, 2)}}})
		if err != nil {
			t.Fatal(err)
		}
		a.Close()
	}
	if n, bytes := s.Kept(); n < 2 || n > 20 || bytes > 4000 {
		t.Errorf("%d answers of %d bytes", n, bytes)
	}
	err := s.LoadAll(t.Context(), []Source{configured(t, times("n", 1), config+
		` model_transaction_policy { decoupled: true }`)})
	if err == nil || !strings.Contains(err.Error(), "are not kept") {
		t.Errorf("a model with several answers: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = begin(t, Options{}, configured(t, times("m", 2), config))
	c, err := s.Config("m", "")
	if err != nil || !strings.Contains(fmt.Sprint(c.Parameters["response_cache"]), "off") {
		t.Errorf("configuration %+v (%v)", c, err)
	}
}

// TestCachedEnsemble: the answers of an ensemble are kept, and those of its models in a pipeline;
// one that is kept is no request for a model of one graph.
func TestCachedEnsemble(t *testing.T) {
	e := chain(t)
	e.Config.ResponseCache = &oip.ResponseCache{Enable: true}
	s := begin(t, Options{Cache: 1 << 20}, e, times("m", 3), plus("p", 1, "3.5"))
	for range 2 {
		if y, _, err := product(t.Context(), s, "e", ""); y != 6.5 || err != nil {
			t.Errorf("%v (%v)", y, err)
		}
	}
	e1, m := counts(t, s, "e"), counts(t, s, "m")
	if e1.Requests.CacheHit.Count != 1 || m.Requests.CacheHit.Count != 0 ||
		m.Requests.Success.Count != 1 {
		t.Errorf("%+v, of a model %+v", e1, m)
	}
}
