package server

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

var pairSource = written("pair", `graph "pair" {
  opset "" 17
  input %x: int32[N]
  input %s: string[M]
  %y: int32[N] = Neg@13 (%x)
  %t: string[M] = Identity@16 (%s)
  output %y
  output %t
}`)

// rowsSource answers each row of its input by itself.
var rowsSource = written("rows", `graph "rows" {
  opset "" 17
  meta "decoupled" "true"
  input %x: int32[N,2]
  %y: int32[N,2] = Neg@13 (%x)
  output %y
}`)

// TestSeveralAnswers: each row is an answer, and the last says that it is; with
// triton_enable_empty_final_response one without outputs follows.
func TestSeveralAnswers(t *testing.T) {
	s := begin(t, Options{}, rowsSource)
	for _, c := range []struct {
		rows  int
		empty bool
		want  string
	}{{2, false, "[0 -1]false [-2 -3]true "}, {2, true, "[0 -1]false [-2 -3]false true "},
		{0, false, "true "}, {0, true, "true "}} {
		x := make([]int32, 2*c.rows)
		for i := range x {
			x[i] = int32(i)
		}
		a, err := s.InferAll(t.Context(), "rows", "", &oip.Request{ID: "7",
			Parameters: oip.Parameters{"triton_enable_empty_final_response": c.empty},
			Inputs:     []oip.Input{{Name: "x", Tensor: tensor.From(x, c.rows, 2)}}})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := a.Each(func(r *oip.Response) error {
			for _, o := range r.Outputs {
				got += fmt.Sprint(tensor.As[int32](o.Tensor))
			}
			if r.ID != "7" || r.Model != "rows" {
				t.Errorf("%v", r)
			}
			got += fmt.Sprint(r.Parameters["triton_final_response"], " ")
			return nil
		}); err != nil || got != c.want {
			t.Errorf("%v, %s, want %s", err, got, c.want)
		}
		a.Close()
	}
}

// TestSeveralRefused: who takes one answer is told, and so is who asks for too many.
func TestSeveralRefused(t *testing.T) {
	s := begin(t, Options{Memory: "/"}, rowsSource, digitsSource())
	request := func(rows int) *oip.Request {
		return &oip.Request{Inputs: []oip.Input{{Name: "x",
			Tensor: tensor.From(make([]int32, 2*rows), rows, 2)}}}
	}
	if _, err := s.Infer(t.Context(), "rows", "", request(1)); oip.KindOf(err) !=
		oip.Unsupported || !strings.Contains(err.Error(), "decoupled") {
		t.Error(err)
	}
	if _, err := s.InferAll(t.Context(), "rows", "", request(mostAnswers+1)); oip.KindOf(err) !=
		oip.Invalid {
		t.Error(err)
	}
	if c, err := s.Config("rows", ""); err != nil || !c.TransactionPolicy.Decoupled {
		t.Errorf("%v, %v", c, err)
	}
	if s.active != 0 {
		t.Errorf("%d requests are left", s.active)
	}
	src := written("m", `graph "m" {
	  opset "" 17
	  meta "decoupled" "maybe"
	  input %x: int32[N]
	  %y: int32[N] = Neg@13 (%x)
	  output %y
	}`)
	m, err := src.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := describe(m, "m", "1"); !errors.Is(err, weir.ErrModel) {
		t.Error(err)
	}
}

// TestGenerate: inputs by name in, outputs by name out; a stream has an event for each answer.
func TestGenerate(t *testing.T) {
	s := begin(t, Options{}, rowsSource, pairSource)
	for _, c := range []struct {
		path, body string
		status     int
		says       string
	}{
		{"pair/generate", `{"x":[1,2],"s":"a","id":"5"}`, 200, `"y":[-1,-2],"t":"a"}`},
		{"pair/versions/1/generate_stream", `{"x":1,"s":"a"}`, 200, "data: {"},
		{"pair/generate", `{"x":[1,2]}`, 400, "s"},
		{"pair/generate", `{"x":{}}`, 400, "x"},
		{"rows/generate", `{"x":[1,2]}`, 501, "decoupled"},
		{"rows/generate_stream", `{"x":[1,2,3,4]}`, 200, `"y":[-1,-2]}` + "\n\ndata: "},
		{"none/generate_stream", `{}`, 404, "unknown model"},
		{"rows/versions/9/generate_stream", `{}`, 404, "no version"},
	} {
		got := ask(s, "POST", "/v2/models/"+c.path, []byte(c.body))
		kind := got.Header.Get("Content-Type")
		if body := all(t, got); got.StatusCode != c.status || !bytes.Contains(body,
			[]byte(c.says)) || c.status == 200 && strings.HasSuffix(c.path, "stream") !=
			(kind == "text/event-stream") {
			t.Errorf("%s: %d, %s, %s", c.path, got.StatusCode, kind, body)
		}
	}
	if n := s.bodies.Load(); n != 0 {
		t.Errorf("%d bytes are held", n)
	}
}
