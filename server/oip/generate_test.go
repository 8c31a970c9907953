package oip

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

var generateFields = []TensorFields{{"x", "INT32", []int64{-1, 2}}, {"s", "BYTES", []int64{-1, -1}},
	{"one", "FP32", []int64{}}, {"b", "BOOL", []int64{1}}}

// TestGenerate: inputs have the shape that is declared for as many elements as there are, and what
// is no input is a parameter.
func TestGenerate(t *testing.T) {
	r, err := DecodeGenerate([]byte(`{"id":"7","x":[[1,2],[3,4]],"s":"a","one":2.5,"b":[true],
		"parameters":{"timeout":5},"sequence_id":"q","sequence_start":true}`), generateFields, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := r.ID
	for _, in := range r.Inputs {
		got += fmt.Sprint(" ", in.Name, in.Tensor.Shape)
	}
	if want := "7 x[2 2] s[1 1] one[] b[1]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if fmt.Sprint(r.Parameters) != "map[sequence_id:q sequence_start:true timeout:5]" {
		t.Errorf("%v", r.Parameters)
	}
	for body, says := range map[string]string{
		`[1]`:                   "",
		`{"x":[1,2,3]}`:         "3 elements",
		`{"x":[]`:               "",
		`{"x":["a","b"]}`:       "x",
		`{"b":[true,false]}`:    "2 elements",
		`{"x":[1,2],"x":[1,2]}`: "twice",
		`{"y":[1]}`:             "y",
		`{"x":[1,2]} 3`:         "",
		`{"parameters":3}`:      "",
		`{"id":3}`:              "",
		`{"x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`: "",
	} {
		_, err := DecodeGenerate([]byte(body), generateFields, nil)
		if !errors.Is(err, ErrRequest) ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%.40s: %v, want %q", body, err, says)
		}
	}
}

// TestParametersWithoutNames: a name may be empty, wherever parameters are, and there are not more
// of them in several objects than in one.
func TestParametersWithoutNames(t *testing.T) {
	r, err := DecodeGenerate([]byte(`{"parameters":{"":1},"":2}`), generateFields, nil)
	if err != nil || fmt.Sprint(r.Parameters) != "map[:2]" {
		t.Errorf("%v, %v", r, err)
	}
	body := []byte(`{"outputs":[{"name":"y","parameters":{"":1}}],"parameters":{"":2}}`)
	r, err = Decode(body, len(body), nil)
	if err != nil || fmt.Sprint(r.Parameters, r.Outputs[0].Parameters) != "map[:2] map[:1]" {
		t.Errorf("%v, %v", r, err)
	}
	body = []byte(`{"parameters":{"":1}}`)
	a, err := DecodeResponse(body, len(body))
	if err != nil || fmt.Sprint(a.Parameters) != "map[:1]" {
		t.Errorf("%v, %v", a, err)
	}
	var many strings.Builder
	for i := range MaxValues / 2 {
		fmt.Fprintf(&many, `,"a%d":1`, i)
	}
	twice := `{"parameters":{"x":1` + many.String() + `},"parameters":{"y":1` +
		strings.ReplaceAll(many.String(), "a", "b") + `}}`
	if _, err := DecodeGenerate([]byte(twice), nil, nil); !errors.Is(err, ErrRequest) {
		t.Errorf("more parameters than there may be, in two objects: %v", err)
	}
}

// TestAppendGenerated: outputs of one element are values, others flat arrays.
func TestAppendGenerated(t *testing.T) {
	r := Response{Model: "m", Version: "1", ID: "7", Outputs: []Value{
		{Name: "a", Tensor: tensor.From([]int32{4}, 1, 1)},
		{Name: "b", Tensor: tensor.From([]float32{1, 2}, 2, 1)},
		{Name: "c\"", Tensor: tensor.FromStrings([]string{"x"}, 1)},
		{Name: "d", Tensor: tensor.From([]int64{}, 0)}}}
	got, err := r.AppendGenerated(nil)
	want := `{"id":"7","model_name":"m","model_version":"1","a":4,"b":[1,2],"c\"":"x","d":[]}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
	r.Outputs = []Value{{Name: "a", Tensor: tensor.FromStrings([]string{"\xff"}, 1)}}
	if _, err := r.AppendGenerated(nil); !errors.Is(err, ErrRequest) {
		t.Errorf("no UTF-8: %v", err)
	}
	r.Outputs[0].Region = &Region{Name: "r"}
	if _, err := r.AppendGenerated(nil); !errors.Is(err, ErrRequest) {
		t.Errorf("in a region: %v", err)
	}
}

// FuzzGenerate: whatever comes is a request with the declared types, or an error of the kind.
func FuzzGenerate(f *testing.F) {
	f.Add([]byte(`{"x":[1,2],"s":["a"],"one":1,"b":true,"parameters":{"a":1}}`))
	f.Add([]byte(`{"s":[],"x":[[],[1,2e0]],"q":null}`))
	f.Add([]byte(`{"parameters":{"":1},"":""}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := DecodeGenerate(body, generateFields, nil)
		if err != nil {
			if !errors.Is(err, ErrRequest) {
				t.Fatal(err)
			}
			return
		}
		for _, in := range r.Inputs {
			n, err := tensor.Count(in.Tensor.Shape)
			if err != nil || n != in.Tensor.Len() {
				t.Fatalf("%s: %v, %v", in.Name, in.Tensor.Shape, err)
			}
		}
	})
}
