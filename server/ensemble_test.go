package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

// plus adds a number to what it is given.
func plus(name string, version int64, by string) Source {
	src := written(name, fmt.Sprintf(`graph "plus" {
	  opset "" 13
	  input %%a: float32[M,2]
	  const %%by: float32[1] = {%s}
	  %%b: float32[M,2] = Add@13 (%%a, %%by)
	  output %%b
	}`, by))
	src.Version = version
	return src
}

// made is an ensemble by its steps, from x to y.
func made(t *testing.T, name, steps string) Source {
	t.Helper()
	return configured(t, Source{Name: name, Version: 1, Mark: name}, `platform: "ensemble"
input { name: "x" data_type: TYPE_FP32 dims: [ -1, 2 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ -1, 2 ] }
ensemble_scheduling { `+steps+` }`)
}

// stepText is a step of a configuration, from one value to another.
func stepText(model, in, from, out, to string) string {
	return fmt.Sprintf(`step { model_name: %q model_version: -1 input_map { key: %q value: %q } `+
		`output_map { key: %q value: %q } }`, model, in, from, out, to)
}

// chain is an ensemble that multiplies by m and adds by p.
func chain(t *testing.T) Source {
	t.Helper()
	return made(t, "e", stepText("p", "a", "mid", "b", "y")+stepText("m", "x", "x", "y", "mid"))
}

// flat is times whose configuration reshapes its input, so that ensembles with it are pipelines.
func flat(t *testing.T, version int64) Source {
	t.Helper()
	return configured(t, times("m", version), `input { name: "x" data_type: TYPE_FP32 `+
		`dims: [ -1, 2 ] } output { name: "y" data_type: TYPE_FP32 dims: [ -1, 1, 2 ] `+
		`reshape { shape: [ -1, 2 ] } }`)
}

// flatChain is chain for flat.
func flatChain(t *testing.T) Source {
	t.Helper()
	src := made(t, "e", stepText("q", "a", "mid", "b", "y")+stepText("m", "x", "x", "y", "mid"))
	return src
}

// squeeze is plus for what flat returns.
func squeeze() Source {
	return written("q", `graph "squeeze" {
	  opset "" 13
	  input %a: float32[M,1,2]
	  const %by: float32[1] = {3.5}
	  const %axes: int64[1] = {1}
	  %s: float32[M,2] = Squeeze@13 (%a, %axes)
	  %b: float32[M,2] = Add@13 (%s, %by)
	  output %b
	}`)
}

// note is what the configuration says came of an ensemble.
func note(t *testing.T, s *Server) string {
	t.Helper()
	c, err := s.Config("e", "")
	if err != nil {
		t.Fatal(err)
	}
	if c.Platform != "ensemble" || c.Backend != "" || c.DefaultModelFilename != "" ||
		len(c.EnsembleScheduling.Step) == 0 {
		t.Errorf("the configuration is %+v", c)
	}
	return c.Parameters["ensemble"].StringValue
}

// counts are the statistics of a model.
func counts(t *testing.T, s *Server, name string) oip.Statistics {
	t.Helper()
	list, err := s.Statistics(name, "")
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

// TestEnsembles: an ensemble computes what its models compute one after another, bit by bit, as one
// graph or as a pipeline, and says which; statistics count it, and each of its models.
func TestEnsembles(t *testing.T) {
	for _, c := range []struct {
		note    string
		joined  bool
		members []string
		sources []Source
	}{
		{"one graph of m, p", true, []string{"m", "p"},
			[]Source{chain(t), times("m", 3), plus("p", 1, "3.5")}},
		{"a pipeline of m, q: the configuration of m reshapes y", false, []string{"m", "q"},
			[]Source{flatChain(t), flat(t, 3), squeeze()}},
	} {
		t.Run(c.note, func(t *testing.T) {
			s := begin(t, Options{}, c.sources...)
			if got := note(t, s); got != c.note {
				t.Errorf("it is %q, want %q", got, c.note)
			}
			m, err := s.Metadata("e", "")
			if err != nil || m.Platform != "ensemble" || len(m.Inputs) != 1 ||
				len(m.Outputs) != 1 ||
				!slices.Equal(m.Inputs[0].Shape, []int64{-1, 2}) || m.Outputs[0].Name != "y" {
				t.Errorf("metadata %+v (%v)", m, err)
			}
			for _, in := range [][]float32{{1, 2}, {0.1, -7, 1e-9, 3}, {5, 6}} {
				body := fmt.Appendf(nil, `{"inputs":[{"name":"x","datatype":"FP32","shape":[%d,2],`+
					`"data":%s}]}`, len(in)/2, strings.ReplaceAll(fmt.Sprint(in), " ", ","))
				r := ask(s, "POST", "/v2/models/e/infer", body)
				want := make([]float32, len(in))
				for i, x := range in {
					want[i] = float32(x*3) + 3.5 // rounded between the models
				}
				b := all(t, r)
				got, err := oip.DecodeResponse(b, len(b))
				if err != nil || !tensor.Equal(got.Outputs[0].Tensor, tensor.From(want, len(in)/2,
					2)) {
					t.Errorf("%s: %v: %+v (%v)", c.note, in, got, err)
				}
			}
			e, took := counts(t, s, "e"), uint64(0)
			for _, n := range append([]string{"e"}, c.members...) {
				p := counts(t, s, n)
				if p.Inferences != 4 || p.Executions != 3 || p.Requests.Success.Count != 3 ||
					p.Requests.Infer.Count != 3 || p.Requests.Infer.NS == 0 ||
					p.LastInference == 0 || len(p.Batches) != 2 || p.Batches[0].Infer.NS == 0 {
					t.Errorf("%s: statistics of %s: %+v", c.note, n, p)
				}
				if n != "e" {
					took += p.Requests.Infer.NS
				}
			}
			if all := e.Requests.Infer.NS; c.joined && (took > all || took < all-12) {
				t.Errorf("the models took %d ns and the graph of them %d", took, all)
			}
			for _, wrong := range []string{`{"inputs":[]}`,
				`{"inputs":[{"name":"x","datatype":"FP32","shape":[1,3],"data":[1,2,3]}]}`,
				`{"inputs":[{"name":"x","datatype":"INT32","shape":[1,2],"data":[1,2]}]}`,
				`{"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[1,2]},` +
					`{"name":"z","datatype":"FP32","shape":[1],"data":[1]}]}`} {
				r := ask(s, "POST", "/v2/models/e/infer", []byte(wrong))
				if b := all(t, r); r.StatusCode != 400 {
					t.Errorf("%s: %s: %s %s", c.note, wrong, r.Status, b)
				}
			}
			own := false
			for _, j := range s.Status().Jobs {
				own = own || j.Name == "e/1"
			}
			if own != c.joined {
				t.Errorf("%s: it has a job of its own: %v", c.note, own)
			}
		})
	}
}

// TestEnsembleFollows: an ensemble follows its models: it is made anew behind its requests when one
// is swapped, ends when one is unloaded, and comes back with it; as one graph and as a pipeline.
func TestEnsembleFollows(t *testing.T) {
	for what, c := range map[string]struct {
		sources []Source
		m       func(version int64) Source
	}{
		"one graph": {[]Source{chain(t), times("m", 1), plus("p", 1, "3.5")},
			func(n int64) Source { return times("m", n) }},
		"a pipeline": {[]Source{flatChain(t), flat(t, 1), squeeze()},
			func(n int64) Source { return flat(t, n) }},
	} {
		synctest.Test(t, func(t *testing.T) {
			from := &shelf{}
			for _, src := range c.sources {
				from.put(src.Name, src)
			}
			s := begin(t, Options{Catalogue: from}, c.sources...)
			is := func(want float32) {
				t.Helper()
				if y, _, err := product(t.Context(), s, "e", ""); y != want || err != nil {
					t.Errorf("%s is %v, want %v (%v)", what, y, want, err)
				}
			}
			is(4.5)
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error, 1)
			go func() {
				for ctx.Err() == nil {
					if _, _, err := product(t.Context(), s, "e", ""); err != nil {
						failed <- err
						return
					}
				}
				failed <- nil
			}()
			for n := range int64(5) {
				from.put("m", c.m(n+2))
				if err := s.LoadModel(t.Context(), "m", nil); err != nil {
					t.Fatal(err)
				}
			}
			cancel()
			if err := <-failed; err != nil {
				t.Errorf("%s: a request while a model was swapped: %v", what, err)
			}
			is(9.5)
			if err := s.UnloadModel(t.Context(), "m", nil); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			_, _, err := product(t.Context(), s, "e", "")
			if oip.KindOf(err) != oip.Unavailable || !strings.Contains(err.Error(),
				"ensemble 'e' depends on 'm' which has no loaded version") {
				t.Errorf("%s without a model: %v", what, err)
			}
			if err := s.LoadModel(t.Context(), "m", nil); err != nil {
				t.Fatal(err)
			}
			is(9.5)
			if err := s.UnloadModel(t.Context(), "e", oip.Parameters{
				"unload_dependents": true}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if got := strings.Join(lines(s), "; "); strings.Contains(got, "READY") {
				t.Errorf("%s, unloaded with its models: %s", what, got)
			}
			if now := s.Status(); now.Promised > 0 || len(now.Jobs) > 0 {
				t.Errorf("%s: %d jobs, %v promised", what, len(now.Jobs), now.Promised)
			}
			if err := s.LoadModel(t.Context(), "e", nil); err != nil {
				t.Errorf("%s, loaded with its models: %v", what, err)
			}
			is(9.5)
		})
	}
}

// TestEnsembleRefused: what is wrong with an ensemble keeps it from being served, with the reason.
func TestEnsembleRefused(t *testing.T) {
	ok := stepText("m", "x", "x", "y", "mid") + stepText("p", "a", "mid", "b", "y")
	wide := written("wide", `graph "wide" {
	  opset "" 13
	  input %a: float32[M,3]
	  %b: float32[M,3] = Neg@13 (%a)
	  output %b
	}`)
	whole := written("whole", `graph "whole" {
	  opset "" 13
	  input %a: int32[M,2]
	  %b: int32[M,2] = Neg@13 (%a)
	  output %b
	}`)
	s := begin(t, Options{}, times("m", 1), plus("p", 1, "1"), wide, whole)
	for _, c := range [][2]string{
		{stepText("none", "x", "x", "y", "y"), "depends on 'none' which has no loaded version"},
		{strings.Replace(ok, "-1", "7", 1), "depends on 'm' whose required version 7 is not " +
			"loaded"},
		{"", "a step at least"},
		{stepText("m", "z", "x", "y", "y"), "mapping to non-existing input z in model m"},
		{stepText("m", "x", "x", "z", "y"), "mapped from non-existing output z in model m"},
		{`step { model_name: "m" output_map { key: "y" value: "y" } }`,
			"input x in model m is not mapped to any ensemble tensors"},
		{stepText("m", "x", "x", "y", "mid"), "output y is computed by no step"},
		{ok + stepText("m", "x", "x", "y", "y"), "ensemble tensor y is computed by m, and given " +
			"by p"},
		{stepText("m", "x", "none", "y", "y"), "is no input and computed by no step"},
		{stepText("m", "x", "b", "y", "y") + stepText("p", "a", "y", "b", "b"),
			"the steps of m, p wait for each other"},
		{stepText("m", "x", "x", "y", "mid") + stepText("wide", "a", "mid", "b", "y"),
			"ensemble tensor mid: inconsistent shape: [-1 2] is inferred from model m while " +
				"[-1 3] is inferred from model wide"},
		{stepText("m", "x", "x", "y", "mid") + stepText("whole", "a", "mid", "b", "y"),
			"inconsistent data type: FP32 is inferred from model m while INT32 is inferred from " +
				"model whole"},
		{stepText("wide", "a", "x", "b", "y"), "inconsistent shape: [-1 2] is inferred from " +
			"model e"},
	} {
		err := s.LoadAll(t.Context(), []Source{made(t, "e", c[0])})
		if err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v, want %s", c[0], err, c[1])
		}
	}
	for _, text := range []string{`platform: "ensemble"`, `ensemble_scheduling { }`} {
		err := s.LoadAll(t.Context(), []Source{configured(t, times("e", 1), text)})
		if err == nil || !strings.Contains(err.Error(), "need each other") {
			t.Errorf("%s: %v", text, err)
		}
	}
	a, b := made(t, "a", stepText("b", "x", "x", "y", "y")),
		made(t, "b", stepText("a", "x", "x", "y", "y"))
	if err := s.LoadAll(t.Context(), []Source{a, b}); err == nil ||
		!strings.Contains(err.Error(), "circular dependency between ensembles: a → b → a") {
		t.Errorf("a circle: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	from := &shelf{}
	from.put("a", a)
	from.put("b", b)
	again := begin(t, Options{Catalogue: from})
	if err := again.LoadModel(t.Context(), "a", nil); err == nil ||
		!strings.Contains(err.Error(), "circular dependency between ensembles: a → b → a") {
		t.Errorf("a circle on request: %v", err)
	}
}

// TestEnsembleRows: an ensemble lets no more rows in than its models take.
func TestEnsembleRows(t *testing.T) {
	m := configured(t, times("m", 1), `max_batch_size: 4`)
	e := configured(t, Source{Name: "e", Version: 1}, `platform: "ensemble" max_batch_size: 8
	  input { name: "x" data_type: TYPE_FP32 dims: 2 }
	  output { name: "y" data_type: TYPE_FP32 dims: 2 }
	  ensemble_scheduling { `+stepText("m", "x", "x", "y", "y")+` }`)
	s := begin(t, Options{}, m)
	if err := s.LoadAll(t.Context(), []Source{e}); err == nil || !strings.Contains(err.Error(),
		"allows maximum batch size 8, but it contains model m which only allows maximum batch "+
			"size to be 4") {
		t.Error(err)
	}
	e.Config.MaxBatchSize = 4
	if err := s.LoadAll(t.Context(), []Source{e}); err != nil {
		t.Fatal(err)
	}
	s.background.Wait()
	if y, _, err := product(t.Context(), s, "e", ""); y != 1 || err != nil {
		t.Errorf("%v (%v)", y, err)
	}
}

// TestEnsembleOfEnsembles: an ensemble is a model of another one, and all of it is one graph.
func TestEnsembleOfEnsembles(t *testing.T) {
	outer := made(t, "outer", stepText("e", "x", "x", "y", "z")+stepText("m", "x", "z", "y", "y"))
	s := begin(t, Options{}, outer, chain(t), times("m", 3), plus("p", 1, "3.5"))
	if y, _, err := product(t.Context(), s, "outer", ""); y != 19.5 || err != nil {
		t.Errorf("%v (%v)", y, err)
	}
	c, err := s.Config("outer", "")
	if err != nil || c.Parameters["ensemble"].StringValue != "one graph of e, m" {
		t.Errorf("%+v (%v)", c, err)
	}
	of := map[string]oip.Statistics{}
	for name, n := range map[string]uint64{"outer": 1, "e": 1, "m": 2, "p": 1} {
		of[name] = counts(t, s, name)
		if of[name].Requests.Success.Count != n || of[name].Executions != n {
			t.Errorf("statistics of %s: %+v", name, of[name])
		}
	}
	all, e := of["outer"].Requests.Infer.NS, of["e"].Requests.Infer.NS
	if e == 0 || e >= all || of["p"].Requests.Infer.NS >= e || of["m"].Requests.Infer.NS >= all {
		t.Errorf("times: %+v", of)
	}
	b, err := s.Beside(t.Context(), "outer", "", "job")
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.Run(t.Context(), weir.Inputs{"x": tensor.From([]float32{1, 1}, 1, 2)})
	if err != nil || tensor.As[float32](r.Outputs()[0])[0] != 19.5 {
		t.Errorf("a batch job: %v", err)
	}
	r.Close()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// TestEnsembleNoRoom: where there is no memory for a graph of an ensemble's own, it is a pipeline.
func TestEnsembleNoRoom(t *testing.T) {
	large := func(name string) Source {
		return written(name, `graph "large" {
		  opset "" 13
		  input %x: float32[200,200]
		  %y: float32[200,200] = Neg@13 (%x)
		  output %y
		}`)
	}
	e := configured(t, Source{Name: "e", Version: 1}, `platform: "ensemble"
	  input { name: "x" data_type: TYPE_FP32 dims: [ 200, 200 ] }
	  output { name: "y" data_type: TYPE_FP32 dims: [ 200, 200 ] }
	  ensemble_scheduling { `+stepText("a", "x", "x", "y", "mid")+
		stepText("b", "x", "mid", "y", "y")+` }`)
	s := begin(t, Options{Host: weir.HostOptions{Memory: 900 << 10}}, large("a"), large("b"), e)
	if got := note(t, s); got != "a pipeline of a, b: there is no memory for a graph of its own" {
		t.Errorf("it is %s", got)
	}
	x := tensor.From(make([]float32, 200*200), 200, 200)
	a, err := s.Infer(t.Context(), "e", "", &oip.Request{Inputs: []oip.Input{{Name: "x",
		Tensor: x}}})
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
}

// TestEnsembleSequence: what says where a request stands in its sequence reaches the models of a
// pipeline.
func TestEnsembleSequence(t *testing.T) {
	sum := written("sum", `graph "sum" {
	  opset "" 13
	  input %i: float32[N,2]
	  input %s: float32[N,2]
	  %o: float32[N,2] = Add@13 (%i, %s)
	  %t: float32[N,2] = Identity@13 (%o)
	  output %o
	  output %t
	}`)
	sum = configured(t, sum, `sequence_batching { state { input_name: "s" output_name: "t" `+
		`data_type: TYPE_FP32 dims: [ -1, 2 ] } }`)
	s := begin(t, Options{}, sum, times("m", 3),
		made(t, "e", stepText("m", "x", "x", "y", "mid")+stepText("sum", "i", "mid", "o", "y")))
	if got := note(t, s); got != "a pipeline of m, sum: sum keeps the state of sequences" {
		t.Errorf("it is %s", got)
	}
	for i, want := range []float32{3, 6, 9} {
		a, err := s.Infer(t.Context(), "e", "", &oip.Request{
			Parameters: oip.Parameters{"sequence_id": int64(5), "sequence_start": i == 0},
			Inputs: []oip.Input{{Name: "x", Tensor: tensor.From([]float32{1, 1}, 1,
				2)}}})
		if err != nil {
			t.Fatal(err)
		}
		if got := tensor.As[float32](a.Outputs[0].Tensor)[0]; got != want {
			t.Errorf("request %d: %v, want %v", i, got, want)
		}
		a.Close()
	}
	kept := made(t, "kept", stepText("e", "x", "x", "y", "y"))
	kept.Config.ResponseCache = &oip.ResponseCache{Enable: true}
	if err := s.LoadAll(t.Context(), []Source{kept}); err == nil ||
		!strings.Contains(err.Error(), "are not kept") {
		t.Errorf("answers of a pipeline with state: %v", err)
	}
	if _, err := s.SetShare("e", weir.Share{}); oip.KindOf(err) != oip.Invalid {
		t.Errorf("a share of a pipeline: %v", err)
	}
	if _, err := s.Beside(t.Context(), "e", "", "job"); err == nil ||
		!strings.Contains(err.Error(), "ensemble e is a pipeline") {
		t.Errorf("a batch job: %v", err)
	}
}

// TestStepsBeside: a folder's steps are made anew when the file or one beside it changes, and what
// is wrong with them keeps the model from being served, with the line.
func TestStepsBeside(t *testing.T) {
	folder := laid(t, "", 1)
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, "m", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const text = "post:\n  - {from: probabilities, steps: [labels: {file: names, to: name}]}\n"
	put("steps.yaml", text)
	put("names", strings.Repeat("first\n", 10))
	from := &Folder{Path: folder}
	offers, err := from.Models(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := begin(t, Options{Catalogue: from}, offers[0].Sources...)
	name := func() string {
		t.Helper()
		a, err := s.Infer(t.Context(), "m", "", &oip.Request{Inputs: []oip.Input{{Name: "image",
			Tensor: tensor.From(make([]float32, 64), 1, 1, 8, 8)}}})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		return a.Outputs[0].Tensor.Strings[0]
	}
	if got := name(); got != "first" {
		t.Errorf("the label is %s", got)
	}
	put("names", strings.Repeat("second\n", 10))
	if err := s.LoadModel(t.Context(), "m", nil); err != nil {
		t.Fatal(err)
	}
	if got := name(); got != "second" {
		t.Errorf("then it is %s", got)
	}
	put("steps.yaml", text+"post_: 1\n")
	if err := s.LoadModel(t.Context(), "m", nil); err == nil || !strings.Contains(err.Error(),
		`steps.yaml: line 3: unknown key "post_"`) {
		t.Errorf("a wrong key: %v", err)
	}
	if got := name(); got != "second" {
		t.Errorf("then it is %s", got)
	}
}

// TestDrawing: an ensemble is drawn as its models, one behind those that it reads from; a model of
// its own is not.
func TestDrawing(t *testing.T) {
	s := begin(t, Options{}, chain(t), times("m", 3), plus("p", 1, "3.5"))
	g, err := s.Drawing("e", "")
	if err != nil {
		t.Fatal(err)
	}
	var says []string
	for _, n := range g.Nodes {
		says = append(says, fmt.Sprint(n.Type, " ", n.Version, ": ", n.In[0].Name, n.In[0].Type,
			" > ", n.Out[0].Name, n.Out[0].Type))
	}
	want := []string{"m 3: xfloat32[?,2] > midfloat32[?,2]", "p 1: midfloat32[?,2] > yfloat32[?,2]"}
	if !slices.Equal(says, want) || len(g.Inputs) != 1 || g.Inputs[0] != g.Nodes[0].In[0] ||
		len(g.Outputs) != 1 || g.Outputs[0].Producer != g.Nodes[1] {
		t.Errorf("%q, %v", says, g)
	}
	if g, err := s.Drawing("m", ""); g != nil || err != nil {
		t.Errorf("of a model: %v, %v", g, err)
	}
	if _, err := s.Drawing("no", ""); oip.KindOf(err) != oip.NotFound {
		t.Errorf("of none: %v", err)
	}
}
