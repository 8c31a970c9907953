package server

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

// rowsOfFloats answers each row of its input by itself.
func rowsOfFloats(name string) Source {
	return written(name, `graph "rows" {
	  opset "" 17
	  meta "decoupled" "true"
	  input %r: float32[N,2]
	  %s: float32[N,2] = Neg@13 (%r)
	  output %s
	}`)
}

// manyAnswers is what an ensemble from x to y answers to rows that count up, in short.
func manyAnswers(ctx context.Context, s *Server, name string, rows int) (string, error) {
	x := make([]float32, 2*rows)
	for i := range x {
		x[i] = float32(i)
	}
	a, err := s.InferAll(ctx, name, "", &oip.Request{Inputs: []oip.Input{{Name: "x",
		Tensor: tensor.From(x, rows, 2)}}})
	if err != nil {
		return "", err
	}
	defer a.Close()
	var all strings.Builder
	err = a.Each(func(r *oip.Response) error {
		for _, o := range r.Outputs {
			fmt.Fprint(&all, o.Tensor.Shape[0], tensor.As[float32](o.Tensor))
		}
		fmt.Fprint(&all, r.Parameters["triton_final_response"], " ")
		return nil
	})
	return all.String(), err
}

// TestEnsembleAnswersSeveralTimes: where a model of an ensemble answers several times, the steps
// behind it compute each answer, and the ensemble answers as often, in ensembles of ensembles too;
// what is held for the answers is given back with them.
func TestEnsembleAnswersSeveralTimes(t *testing.T) {
	s := begin(t, Options{}, times("m", 3), rowsOfFloats("rows"), plus("p", 1, "0.5"),
		made(t, "e", stepText("m", "x", "x", "y", "mid")+stepText("rows", "r", "mid", "s", "each")+
			stepText("p", "a", "each", "b", "y")),
		made(t, "outer", stepText("e", "x", "x", "y", "some")+
			stepText("rows", "r", "some", "s", "y")))
	if got := note(t, s); got != "a pipeline of m, rows, p: rows answers a request several times" {
		t.Errorf("it is %s", got)
	}
	for _, c := range []struct {
		name string
		rows int
		want string
	}{{"e", 2, "1 [0.5 -2.5]false 1 [-5.5 -8.5]true "}, {"e", 0, "true "},
		{"outer", 2, "1 [-0.5 2.5]false 1 [5.5 8.5]true "}, {"outer", 0, "true "}} {
		if got, err := manyAnswers(t.Context(), s, c.name, c.rows); got != c.want || err != nil {
			t.Errorf("%d rows: %s, %s (%v), want %s", c.rows, c.name, got, err, c.want)
		}
	}
	if held := s.bodies.Load(); held != 0 {
		t.Errorf("%d bytes are held for answers that are gone", held)
	}
	if _, err := s.Infer(t.Context(), "e", "", &oip.Request{}); oip.KindOf(err) !=
		oip.Unsupported {
		t.Errorf("asked for one answer: %v", err)
	}
	if c, err := s.Config("e", ""); err != nil || c.TransactionPolicy == nil ||
		!c.TransactionPolicy.Decoupled {
		t.Errorf("the configuration says %v (%v)", c, err)
	}
}

// TestEnsembleAnswersTooOften: how many answers there are, and their bytes, is bounded; and each is
// a row.
func TestEnsembleAnswersTooOften(t *testing.T) {
	wide := made(t, "wide", stepText("m", "x", "x", "y", "y")+
		stepText("rows", "r", "y", "s", "each"))
	s := begin(t, Options{Bodies: 8 * 100}, times("m", 3), rowsOfFloats("rows"),
		made(t, "e", stepText("rows", "r", "x", "s", "y")), wide)
	if _, err := manyAnswers(t.Context(), s, "e", mostAnswers+1); oip.KindOf(err) != oip.Invalid {
		t.Errorf("%d answers: %v", mostAnswers+1, err)
	}
	if got, err := manyAnswers(t.Context(), s, "e", 100); strings.Count(got, "1 [") != 100 {
		t.Errorf("100 answers: %s (%v)", got, err)
	}
	if err := s.Hold(8); err != nil {
		t.Fatal(err)
	}
	if _, err := manyAnswers(t.Context(), s, "e", 100); oip.KindOf(err) != oip.Unavailable {
		t.Errorf("more bytes than there may be: %v", err)
	}
	s.Release(8)
	if _, err := manyAnswers(t.Context(), s, "wide", 2); err == nil ||
		!strings.Contains(err.Error(), "rows of one shape") {
		t.Errorf("answers of several rows: %v", err)
	}
	if held := s.bodies.Load(); held != 0 {
		t.Errorf("%d bytes are held", held)
	}
}
