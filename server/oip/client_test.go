package oip

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// TestRequestAppend: what a client writes is what a server reads.
func TestRequestAppend(t *testing.T) {
	r := &Request{ID: "7", Parameters: Parameters{"timeout": int64(5)}, Inputs: []Input{
		{Name: "x", Tensor: tensor.From([]float32{1, 2}, 1, 2)},
		{Name: "names", Tensor: tensor.FromStrings([]string{"a", ""}, 2)},
		{Name: "half", Tensor: tensor.From([]tensor.Half{tensor.HalfOf(0.5)}, 1)}},
		Outputs: []Output{{Name: "y"}}}
	body, header, err := r.Append([]byte("before"))
	if err != nil || !bytes.HasPrefix(body, []byte("before")) {
		t.Fatalf("%q, %v", body, err)
	}
	got, err := Decode(body[len("before"):], header, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.ID != "7" || got.Parameters["timeout"] != int64(5) || len(got.Outputs) != 1 ||
		!got.Outputs[0].Binary || got.Outputs[0].Name != "y" {
		t.Errorf("got %+v", got)
	}
	for i, in := range r.Inputs {
		if got.Inputs[i].Name != in.Name || !tensor.Equal(got.Inputs[i].Tensor, in.Tensor) {
			t.Errorf("input %s became %v", in.Name, got.Inputs[i].Tensor)
		}
	}
	wrong := &Request{Inputs: []Input{{Name: "z", Tensor: tensor.From([]complex64{1}, 1)}}}
	if _, _, err := wrong.Append(nil); !errors.Is(err, ErrRequest) {
		t.Errorf("a type that the protocol does not have: %v", err)
	}
}

// TestDecodeResponse: what a server writes is what a client reads, in JSON and binary.
func TestDecodeResponse(t *testing.T) {
	for _, binary := range []bool{false, true} {
		r := &Response{Model: "m", Version: "3", ID: "7", Outputs: []Value{
			{Name: "y", Tensor: tensor.From([]float32{1, 2}, 1, 2), Binary: binary},
			{Name: "labels", Tensor: tensor.FromStrings([]string{"cat"}, 1), Binary: binary}}}
		body, header, err := r.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		if header == 0 {
			header = len(body)
		}
		got, err := DecodeResponse(body, header)
		if err != nil || got.Model != "m" || got.Version != "3" || got.ID != "7" {
			t.Fatalf("got %+v, %v", got, err)
		}
		for i, v := range r.Outputs {
			if got.Outputs[i].Name != v.Name || got.Outputs[i].Binary != binary ||
				!tensor.Equal(got.Outputs[i].Tensor, v.Tensor) {
				t.Errorf("output %s became %+v", v.Name, got.Outputs[i])
			}
		}
	}
	for body, header := range map[string]int{"{}x": 2, "{": 1, "{}": 3,
		`{"outputs":[{"name":"y","datatype":"FP32","shape":[2],"data":[1]}]}`: 67} {
		if r, err := DecodeResponse([]byte(body), header); !errors.Is(err, ErrAnswer) {
			t.Errorf("%s: %+v, %v", body, r, err)
		}
	}
}

// FuzzDecodeResponse: no answer of whatever server makes a client panic, and what it reads it can
// write again.
func FuzzDecodeResponse(f *testing.F) {
	f.Add([]byte(`{"model_name":"m","outputs":[{"name":"y","datatype":"FP32","shape":[2],`+
		`"parameters":{"binary_data_size":8}}]}12345678`), 99)
	f.Add([]byte(`{"parameters":{"":1}}`), 21)
	f.Add([]byte(`{"outputs":[{"name":"y","datatype":"BYTES","shape":[1],"data":["a"]}]}`), 71)
	f.Fuzz(func(t *testing.T, body []byte, header int) {
		r, err := DecodeResponse(body, header)
		if err != nil {
			if !errors.Is(err, ErrAnswer) {
				t.Fatalf("an error without a kind: %v", err)
			}
			return
		}
		for _, v := range r.Outputs {
			if v.Region == nil && v.Tensor.Check() != nil {
				t.Fatalf("output %s is %v", v.Name, v.Tensor.Check())
			}
		}
		if _, _, err := r.Append(nil); err != nil && !strings.Contains(err.Error(), "JSON") {
			t.Fatal(err)
		}
	})
}
