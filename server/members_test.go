package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
)

// TestMemberThatFitsNoMore: an ensemble whose model became one of other outputs, which it cannot be
// made of, is not served until that model is one again that fits; a request that comes before gets
// no other output for its own.
func TestMemberThatFitsNoMore(t *testing.T) {
	other := written("m", `graph "other" {
	  opset "" 17
	  input %x: float32[N,2]
	  const %by: float32[1] = {100}
	  const %axes: int64[1] = {1}
	  %p: float32[N,2] = Mul@14 (%x, %by)
	  %z: float32[N,1,2] = Unsqueeze@13 (%p, %axes)
	  output %z
	}`)
	other.Version = 2
	wide := configured(t, written("m", `graph "wide" {
	  opset "" 17
	  input %x: float32[N,2]
	  const %axes: int64[1] = {1}
	  %c: float64[N,2] = Cast@13 (%x) {to = 11}
	  %y: float64[N,1,2] = Unsqueeze@13 (%c, %axes)
	  output %y
	}`), "")
	wide.Version = 2
	for what, next := range map[string]Source{"another name": other, "another type": wide} {
		synctest.Test(t, func(t *testing.T) {
			sources := []Source{made(t, "e", stepText("m", "x", "x", "y", "mid")+
				stepText("q", "a", "mid", "b", "y")), flat(t, 1), squeeze()}
			from := &shelf{}
			for _, src := range sources {
				from.put(src.Name, src)
			}
			s := begin(t, Options{Catalogue: from}, sources...)
			if y, _, err := product(t.Context(), s, "e", ""); y != 4.5 || err != nil {
				t.Fatal(y, err)
			}
			m := s.models["m"]
			_ = m.take(t.Context())
			offer := Offer{Name: "m", Sources: []Source{next}}
			if err := s.serve(t.Context(), m, offer); err != nil {
				t.Fatal(err)
			}
			<-m.turn // the ensemble does not follow yet
			y, _, err := product(t.Context(), s, "e", "")
			if oip.KindOf(err) != oip.Unavailable || !strings.Contains(err.Error(),
				"model m was loaded") {
				t.Errorf("%s: it answers %v, %v", what, y, err)
			}
			from.put("m", next)
			if err := s.LoadModel(t.Context(), "m", nil); err != nil {
				t.Fatal(err)
			}
			_, _, err = product(t.Context(), s, "e", "")
			if ready, _ := s.ModelReady("e", ""); ready || oip.KindOf(err) != oip.Unavailable ||
				!strings.Contains(err.Error(), "in ensemble e, ensemble tensor mid") {
				t.Errorf("%s: ready %v, %v", what, ready, err)
			}
			from.put("m", flat(t, 3))
			if err := s.LoadModel(t.Context(), "m", nil); err != nil {
				t.Fatal(err)
			}
			if y, _, err := product(t.Context(), s, "e", ""); y != 6.5 || err != nil {
				t.Errorf("%s: %v, %v once it fits again", what, y, err)
			}
		})
	}
}

// TestMembersOfOthers: who may change an ensemble changes no models with it that are others', and
// cannot ask one by an ensemble of their own that they may not ask themselves.
func TestMembersOfOthers(t *testing.T) {
	from := &shelf{}
	for _, src := range []Source{chain(t), times("m", 3), plus("p", 1, "3.5")} {
		from.put(src.Name, src)
	}
	s := begin(t, Options{Catalogue: from}, chain(t), times("m", 3), plus("p", 1, "3.5"))
	token := accounts(t, s, auth.Grant{Pattern: "[ep]", Rights: auth.Read | auth.Infer | auth.Load})
	do := func(path, body string) (int, string) {
		t.Helper()
		r := ask(s, "POST", "/v2/repository/models/"+path, []byte(body), "Authorization", token)
		return r.StatusCode, string(all(t, r))
	}
	ready := func(want ...string) {
		t.Helper()
		var got []string
		for _, e := range s.Index(true) {
			got = append(got, e.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("served are %q, want %q", got, want)
		}
	}
	if code, text := do("e/unload", `{"parameters":{"unload_dependents":true}}`); code != 200 {
		t.Errorf("%d %s", code, text)
	}
	ready("m")
	if code, text := do("e/load", ""); code != 200 {
		t.Errorf("%d %s", code, text)
	}
	ready("e", "m", "p")
	if err := s.UnloadModel(t.Context(), "e", oip.Parameters{
		"unload_dependents": true}); err != nil {
		t.Fatal(err)
	}
	ready()
	if code, text := do("e/load", ""); code != http.StatusForbidden {
		t.Errorf("%d %s", code, text)
	}
}

// TestMembersOfAnOwnConfiguration: who loads a model with a configuration of their own makes no
// ensemble with it of a model that they may not ask.
func TestMembersOfAnOwnConfiguration(t *testing.T) {
	folder := t.TempDir()
	var file bytes.Buffer
	g, err := graph.Parse(`graph "times" {
	  opset "" 17
	  input %x: float32[N,2]
	  %y: float32[N,2] = Mul@14 (%x, %x)
	  output %y
	}`)
	if err == nil {
		err = onnx.Write(&file, g, onnx.WriteOptions{})
	}
	for _, name := range []string{"own", "m"} {
		at := filepath.Join(folder, name, "1")
		err = errors.Join(err, os.MkdirAll(at, 0o700),
			os.WriteFile(filepath.Join(at, "model.onnx"), file.Bytes(), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	from := &Folder{Path: folder}
	s := begin(t, Options{Catalogue: from})
	if err := s.LoadModel(t.Context(), "m", nil); err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(map[string]any{"parameters": map[string]any{"config": `{
		"platform": "ensemble", "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [-1, 2]}],
		"output": [{"name": "y", "data_type": "TYPE_FP32", "dims": [-1, 2]}],
		"ensemble_scheduling": {"step": [{"model_name": "m", "model_version": -1,
		"input_map": {"x": "x"}, "output_map": {"y": "y"}}]}}`}})
	if err != nil {
		t.Fatal(err)
	}
	token := accounts(t, s, auth.Grant{Pattern: "own", Rights: auth.Infer | auth.Load})
	r := ask(s, "POST", "/v2/repository/models/own/load", config, "Authorization", token)
	if text := all(t, r); r.StatusCode != http.StatusForbidden {
		t.Errorf("%d %s", r.StatusCode, text)
	}
	p := oip.Parameters{}
	if err := json.Unmarshal(config, &struct{ Parameters *oip.Parameters }{&p}); err != nil {
		t.Fatal(err)
	}
	if err := s.LoadModel(t.Context(), "own", p); err != nil {
		t.Error(err)
	}
}
