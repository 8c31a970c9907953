package oip

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// one is a request with one input of these fields.
func one(fields string) string { return `{"inputs":[{"name":"x",` + fields + `}]}` }

// TestDecode: values come as they were sent, whatever the order of the fields and the nesting.
func TestDecode(t *testing.T) {
	for _, c := range []struct {
		body string
		want *tensor.Tensor
	}{
		{one(`"datatype":"FP32","shape":[2,2],"data":[1,2.5,-3e2,4]`),
			tensor.From([]float32{1, 2.5, -300, 4}, 2, 2)},
		{one(`"data":[[1,2],[3,4]],"shape":[2,2],"datatype":"FP64"`),
			tensor.From([]float64{1, 2, 3, 4}, 2, 2)},
		{one(`"shape":[],"datatype":"INT64","data":-9223372036854775808`),
			tensor.From([]int64{math.MinInt64})},
		{one(`"shape":[2,3],"datatype":"FP32","data":[0.12345678,[-1.5 , 2],1e2,[[7]], 3]`),
			tensor.From([]float32{.12345678, -1.5, 2, 100, 7, 3}, 2, 3)},
		{one(` "shape" : [ 1 ] , "datatype":"UINT64","data":[18446744073709551615]`),
			tensor.From([]uint64{math.MaxUint64}, 1)},
		{one(`"shape":[2],"datatype":"INT8","data":[-128,127]`), tensor.From([]int8{-128, 127}, 2)},
		{one(`"shape":[2],"datatype":"UINT16","data":[-0,65535]`), tensor.From([]uint16{0, 65535},
			2)},
		{one(`"shape":[2],"datatype":"INT32","data":[-5,7]`), tensor.From([]int32{-5, 7}, 2)},
		{one(`"shape":[2],"datatype":"BOOL","data":[true,false]`), tensor.From([]bool{true, false},
			2)},
		{one(`"shape":[2],"datatype":"BYTES","data":["a\"\u00e9",""]`),
			tensor.FromStrings([]string{"a\"é", ""}, 2)},
		{one(`"shape":[0,3],"datatype":"FP32","data":[]`), tensor.From([]float32{}, 0, 3)},
		{one(`"more":{"a":[null,1e5,{}]},"shape":[1],"datatype":"UINT8","data":[255]`),
			tensor.From([]uint8{255}, 1)},
	} {
		r, err := Decode([]byte(c.body), len(c.body), nil)
		if err != nil {
			t.Errorf("%s: %v", c.body, err)
			continue
		}
		if got := r.Inputs[0].Tensor; !tensor.Equal(got, c.want) || r.Inputs[0].Name != "x" {
			t.Errorf("%s: %v, want %v", c.body, got, c.want)
		}
	}
}

// TestDecodeFields: what a request says beside its values.
func TestDecodeFields(t *testing.T) {
	body := `{"id":"7","parameters":{"timeout":5,"f":0.5,"s":"t","binary_data_output":true},` +
		`"inputs":[],"outputs":[{"name":"a"},{"name":"b","parameters":{"binary_data":false,` +
		`"classification":3}}]}`
	r, err := Decode([]byte(body), len(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	p := r.Parameters
	if r.ID != "7" || p["timeout"] != int64(5) || p["f"] != 0.5 || p["s"] != "t" {
		t.Errorf("id %q, parameters %v", r.ID, p)
	}
	a, _ := r.Wants("a")
	b, _ := r.Wants("b")
	if _, c := r.Wants("c"); c || !a.Binary || b.Binary || a.Classes != 0 || b.Classes != 3 {
		t.Errorf("outputs %+v", r.Outputs)
	}
	body = one(`"datatype":"INT8","shape":[3],"parameters":{"shared_memory_region":"r",` +
		`"shared_memory_byte_size":3,"shared_memory_offset":2}`)
	if r, err = Decode([]byte(body), len(body), nil); err != nil {
		t.Fatal(err)
	}
	if in := r.Inputs[0]; *in.Region != (Region{"r", 2, 3}) || in.Tensor.Len() != 3 ||
		in.Tensor.Data != nil {
		t.Errorf("input %+v", in)
	}
	if o, wanted := (&Request{}).Wants("any"); !wanted || o.Binary {
		t.Errorf("a request without outputs wants %+v, %v", o, wanted)
	}
}

// TestDecodeRefuses: every wrong request is an error of kind ErrRequest that says what is wrong.
func TestDecodeRefuses(t *testing.T) {
	x := `"shape":[1],"datatype":"FP32",`
	for body, says := range map[string]string{
		``:                         "ends",
		`[]`:                       "should follow",
		`{`:                        "ends",
		`{} x`:                     "after the end",
		`{"id":1}`:                 "should follow",
		`{"id":"` + "\x01" + `"}`:  "control",
		`{"id":"` + "\xff" + `"}`:  "UTF-8",
		`{"id":"\q"}`:              "invalid",
		`{"parameters":{"a":[1]}}`: "parameter",
		`{"a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`: "deeper",
		`{"a":01}`:                             "should follow",
		`{"a":-}`:                              "value",
		`{"a":1.}`:                             "digit",
		`{"a":1e}`:                             "digit",
		`{"a":nul}`:                            "null",
		`{"a":[1,]}`:                           "value",
		`{"a":{"b":1,}}`:                       "should follow",
		`{"inputs":[{}]}`:                      "must be given",
		one(x + `"data":[1,2]`):                "more than",
		one(x + `"data":[1,]`):                 "more than",
		one(x + `"data":[1,2`):                 "more than",
		one(x + `"data":[01]`):                 "value",
		one(x + `"data":[1.]`):                 "digit",
		one(x + `"data":[-]`):                  "value",
		one(x + `"data":[]`):                   "0 elements",
		one(x + `"data":[1e39]`):               "no FP32",
		one(x + `"data":[NaN]`):                "value",
		one(x + `"data":["1"]`):                "value",
		one(x + `"data":[1],"x":1,"data":[2]`): "",
		one(`"shape":[1],"datatype":"FP32"`):   "give data",
		one(`"shape":[-1],"datatype":"FP32","data":[1]`):                                    "not negative",
		one(`"shape":[1.5],"datatype":"FP32","data":[1]`):                                   "whole number",
		one(`"shape":[4611686018427387904,4],"datatype":"FP32","data":[1]`):                 "shape",
		one(`"shape":[100000000],"datatype":"FP32","data":[1]`):                             "bytes of JSON",
		one(`"shape":[1],"datatype":"fp32","data":[1]`):                                     "capitals",
		one(`"shape":[1],"datatype":"FP16","data":[1]`):                                     "binary",
		one(`"shape":[1],"datatype":"BF16","data":[1]`):                                     "binary",
		one(`"shape":[1],"datatype":"INT8","data":[128]`):                                   "no INT8",
		one(`"shape":[1],"datatype":"INT32","data":[1.0]`):                                  "no INT32",
		one(`"shape":[1],"datatype":"UINT8","data":[-1]`):                                   "no UINT8",
		one(`"shape":[1],"datatype":"INT64","data":[9223372036854775808]`):                  "no INT64",
		one(`"shape":[1],"datatype":"UINT64","data":[18446744073709551616]`):                "no UINT64",
		one(`"shape":[1],"datatype":"BOOL","data":[1]`):                                     "false",
		one(`"shape":[1],"datatype":"FP32","data":[1],"parameters":{"binary_data_size":0}`): "both",
		one(`"shape":[1],"datatype":"FP32","parameters":{"binary_data_size":4}`): "0 " +
			"bytes",
		one(`"shape":[1],"datatype":"FP32","parameters":{"binary_data_size":-4}`):      "-4",
		one(`"shape":[1],"datatype":"FP32","parameters":{"binary_data_size":"4"}`):     "4",
		one(`"shape":[1],"datatype":"INT8","parameters":{"shared_memory_region":"r"}`): "byte_size",
		one(`"shape":[1],"datatype":"INT8","data":[1],"parameters":{"shared_memory_region":"r",` +
			`"shared_memory_byte_size":1}`): "beside",
		`{"outputs":[{"name":"a","parameters":{"shared_memory_offset":1}}]}`:             "without",
		`{"inputs":[` + strings.Repeat("{},", MaxValues) + `{}]}`:                        "4096 inputs",
		`{"outputs":[` + strings.Repeat("{},", MaxValues) + `{}]}`:                       "4096 outputs",
		`{"outputs":[{"name":"a"},{"name":"a"}]}`:                                        "twice",
		`{"outputs":[{"name":"a","parameters":{"classification":-1}}]}`:                  "classification",
		`{"outputs":[{"name":"a","parameters":{"binary_data":1}}]}`:                      "binary_data",
		`{"inputs":[{"name":"x",` + x + `"data":[1]},{"name":"x",` + x + `"data":[1]}]}`: "twice",
	} {
		_, err := Decode([]byte(body), len(body), nil)
		if says == "" {
			if err != nil && !errors.Is(err, ErrRequest) {
				t.Errorf("%s: %v", body, err)
			}
			continue
		}
		if !errors.Is(err, ErrRequest) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.80s: %v, want %q of kind ErrRequest", body, err, says)
		}
	}
}

// TestBinary: binary data go to the inputs that ask for them, in order, and none may be left.
func TestBinary(t *testing.T) {
	head := `{"inputs":[{"name":"a","datatype":"BYTES","shape":[2],"parameters":` +
		`{"binary_data_size":11}},{"name":"b","datatype":"INT32","shape":[1],"data":[5]},` +
		`{"name":"c","datatype":"FP16","shape":[1],"parameters":{"binary_data_size":2}}]}`
	tail := "\x03\x00\x00\x00abc\x00\x00\x00\x00" + "\x00\x3c"
	r, err := Decode([]byte(head+tail), len(head), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []*tensor.Tensor{tensor.FromStrings([]string{"abc", ""}, 2), tensor.From([]int32{5}, 1),
		tensor.From([]tensor.Half{tensor.HalfOf(1)}, 1)}
	for i, in := range r.Inputs {
		if !tensor.Equal(in.Tensor, want[i]) {
			t.Errorf("input %s is %v, want %v", in.Name, in.Tensor, want[i])
		}
	}
	for _, bad := range []string{"", tail[:12], tail + "x", "\x04" + tail[1:],
		"\xff\xff\xff\xff" + tail[4:],
		"\x02" + tail[1:]} {
		if _, err := Decode([]byte(head+bad), len(head), nil); !errors.Is(err, ErrRequest) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, header := range []int{-1, len(head) + len(tail) + 1, math.MinInt} {
		if _, err := Decode([]byte(head+tail), header, nil); !errors.Is(err, ErrRequest) {
			t.Errorf("header of %d bytes: %v", header, err)
		}
	}
	_, err = FromBytes(tensor.Bool, []int{2}, []byte{1, 0x80}, nil)
	if !errors.Is(err, ErrRequest) {
		t.Errorf("a BOOL of 128: %v", err)
	}
}

// TestFloats: numbers are the nearest of their type, as strconv has them, also where two roundings
// differ from one.
func TestFloats(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	texts := []string{"0", "-0", "0.1", "1e22", "1e23", "1e-22", "1e-23", "16777217", "16777219",
		"1.00000005960464477539062500", "1.000000059604644775390625001", "1.0000000596046448",
		"3.4028235e38", "3.4028236e38", "1.1754943e-38", "1.4e-45", "1e-46", "9007199254740993",
		"123456789012345678901234567890", "0.00000000000000000000000000000000001", "1e400", "1E+2",
		"-1e-400", "5e-324", "0e99999999999999999999", "1e-99999999999999999999"}
	for range 200_000 {
		f := math.Float32frombits(rnd.Uint32())
		switch rnd.IntN(4) {
		case 0:
			texts = append(texts, strconv.FormatFloat(float64(f), 'g', -1, 32))
		case 1: // half-way to the next
			texts = append(texts, strconv.FormatFloat((float64(f)+
				float64(math.Nextafter32(f, 2*f)))/2, 'g', -1, 64))
		case 2:
			texts = append(texts, strconv.FormatFloat(float64(f), 'f', rnd.IntN(20), 64))
		default:
			texts = append(texts, fmt.Sprintf("%de%d", rnd.Uint64()>>rnd.IntN(64), rnd.IntN(60)-30))
		}
	}
	read := 0
	for _, s := range texts {
		if strings.ContainsAny(s, "NI") {
			continue
		}
		c := cursor{b: []byte(s)}
		n, err := c.number()
		if err != nil || c.at != len(s) {
			t.Fatalf("%s: read %d bytes: %v", s, c.at, err)
		}
		for _, behind := range []string{",", "]12345678", "e5", ".", "\xff1", " 2"} {
			slow := cursor{b: []byte(s + behind + strings.Repeat(" ", within))}
			f, length := float((*[within]byte)(slow.b))
			if length == 0 {
				continue
			}
			read++
			if n, err := slow.number(); err != nil {
				t.Fatalf("%s was read: %v", slow.b, err)
			} else if v, _ := n.float32(); math.Float32bits(f) != math.Float32bits(v) ||
				int(length) != slow.at {
				t.Fatalf("%s: %v and %d bytes, want %v and %d", slow.b, f, length, v, slow.at)
			}
		}
		f, ok := n.float32()
		want, werr := strconv.ParseFloat(s, 32)
		if ok != (werr == nil) || ok && math.Float32bits(f) != math.Float32bits(float32(want)) {
			t.Fatalf("%s as FP32: %v, %v; strconv says %v, %v", s, f, ok, want, werr)
		}
		d, ok := n.float64()
		want, werr = strconv.ParseFloat(s, 64)
		if ok != (werr == nil) || ok && math.Float64bits(d) != math.Float64bits(want) {
			t.Fatalf("%s as FP64: %v, %v; strconv says %v, %v", s, d, ok, want, werr)
		}
	}
	if read < len(texts)/2 {
		t.Errorf("the quick way read %d of %d", read, len(texts))
	}
}

// TestAppend: an answer is the JSON that it says, with the binary data behind it.
func TestAppend(t *testing.T) {
	r := Response{Model: "m<", Version: "1", ID: "7", Outputs: []Value{
		{Name: "a", Tensor: tensor.From([]float32{1, -2.5e-10}, 1, 2)},
		{Name: "b", Tensor: tensor.FromStrings([]string{"é\n", ""}, 2), Binary: true},
		{Name: "c", Tensor: tensor.From([]int64{math.MinInt64}, 1)},
		{Name: "d", Tensor: tensor.From([]bool{true}, 1)},
		{Name: "e", Tensor: tensor.From([]uint8{1}), Binary: true},
		{Name: "f", Tensor: tensor.FromStrings([]string{"é\n"})},
	}}
	out, header, err := r.Append([]byte("before"))
	if err != nil {
		t.Fatal(err)
	}
	out = out[len("before"):]
	want := `{"model_name":"m<","model_version":"1","id":"7","outputs":[` +
		`{"name":"a","datatype":"FP32","shape":[1,2],"data":[1,-2.5e-10]},` +
		`{"name":"b","datatype":"BYTES","shape":[2],"parameters":{"binary_data_size":11}},` +
		`{"name":"c","datatype":"INT64","shape":[1],"data":[-9223372036854775808]},` +
		`{"name":"d","datatype":"BOOL","shape":[1],"data":[true]},` +
		`{"name":"e","datatype":"UINT8","shape":[],"parameters":{"binary_data_size":1}},` +
		`{"name":"f","datatype":"BYTES","shape":[],"data":["é\n"]}]}`
	if got := string(out[:header]); got != want || !json.Valid(out[:header]) {
		t.Errorf("JSON\n%s\nwant\n%s", got, want)
	}
	if got := string(out[header:]); got != "\x03\x00\x00\x00é\n\x00\x00\x00\x00\x01" {
		t.Errorf("binary data %q", got)
	}
	r = Response{Parameters: Parameters{"f": 0.5, "b": true}, Outputs: []Value{{Name: "a",
		Tensor: tensor.From([]int8{1}, 1), Binary: true, Region: &Region{"r", 0, 1}}}}
	if out, header, err = r.Append(nil); err != nil || header != 0 || string(out) !=
		`{"model_name":"","model_version":"","parameters":{"b":true,"f":0.5},"outputs":[{"name":`+
			`"a","datatype":"INT8","shape":[1],"parameters":{"shared_memory_byte_size":1,`+
			`"shared_memory_region":"r"}}]}` {
		t.Errorf("an output in a region: %s, %d, %v", out, header, err)
	}
	for _, bad := range []*tensor.Tensor{tensor.From([]float32{float32(math.NaN())}, 1),
		tensor.From([]float64{math.Inf(-1)}, 1), tensor.FromStrings([]string{"\xff"}, 1),
		tensor.From([]tensor.Half{0}, 1), tensor.From([]complex64{0}, 1)} {
		r := Response{Outputs: []Value{{Name: "y", Tensor: bad}}}
		if _, _, err := r.Append(nil); !errors.Is(err, ErrRequest) {
			t.Errorf("%v in JSON: %v", bad, err)
		}
	}
}

// TestClassify: best first, the first of equals first, a row at a time.
func TestClassify(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		t     *tensor.Tensor
		k     int
		shape string
		want  string
	}{
		{tensor.From([]float32{.5, .25, .5, nan}, 4), 3, "[3]",
			"0.500000:0:a 0.500000:2 0.250000:1:b"},
		{tensor.From([]int64{1, 2, 4, 3}, 2, 2), 1, "[2 1]", "2.000000:1:b 4.000000:0:a"},
		{tensor.From([]uint8{1}), 9, "[1]", "1.000000:0:a"},
		{tensor.From([]float32{}, 0, 3), 1, "[0 0]", ""},
		{tensor.From([]tensor.Half{tensor.HalfOf(2)}, 1, 1), 1, "[1 1]", "2.000000:0:a"},
	} {
		got, err := Classify(c.t, c.k, []string{"a", "b"})
		if err != nil {
			t.Fatal(err)
		}
		if s := strings.Join(got.Strings, " "); s != c.want || fmt.Sprint(got.Shape) != c.shape {
			t.Errorf("%v: %v %s, want %s %s", c.t, got.Shape, s, c.shape, c.want)
		}
	}
	if _, err := Classify(tensor.FromStrings([]string{"a"}, 1), 1, nil); !errors.Is(err,
		ErrRequest) {
		t.Errorf("strings: %v", err)
	}
}

// FuzzDecode: no body panics, whatever is accepted holds what encoding/json reads in it, and comes
// back from an answer that is made of it.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(one(`"datatype":"FP32","shape":[2],"data":[1,2]`)), 60)
	f.Add([]byte(one(`"datatype":"BYTES","shape":[1],"parameters":{"binary_data_size":5}`)+
		"\x01\x00\x00\x00a"), 87)
	f.Add([]byte(`{"outputs":[{"name":"y","parameters":{"":1}}],"inputs":[]}`), 57)
	f.Add([]byte(`{"id":"\u0041","inputs":[],"x":{"y":[1e5,null,true]}}`), 53)
	f.Fuzz(func(t *testing.T, body []byte, header int) {
		r, err := Decode(body, header, nil)
		if err != nil {
			if !errors.Is(err, ErrRequest) {
				t.Fatalf("%q: %v", body, err)
			}
			return
		}
		if !json.Valid(body[:header]) {
			t.Fatalf("%q was read, and is no JSON", body[:header])
		}
		var answer Response
		for i, in := range r.Inputs {
			if in.Region != nil {
				return
			}
			if err := in.Tensor.Check(); err != nil {
				t.Fatalf("%q: %v", body, err)
			}
			answer.Outputs = append(answer.Outputs, Value{Name: in.Name,
				Tensor: in.Tensor, Binary: i%2 == 0})
		}
		out, header, err := answer.Append(nil)
		if err != nil {
			return
		}
		if header == 0 {
			header = len(out)
		}
		if !json.Valid(out[:header]) {
			t.Fatalf("%q is no JSON", out[:header])
		}
		again, err := Decode([]byte(strings.Replace(string(out), `"outputs"`, `"inputs"`, 1)),
			header-1, nil)
		if err != nil {
			t.Fatalf("%q does not come back: %v", out, err)
		}
		for i, in := range again.Inputs {
			if !tensor.Equal(in.Tensor, r.Inputs[i].Tensor) {
				t.Fatalf("%v came back as %v", r.Inputs[i].Tensor, in.Tensor)
			}
		}
	})
}

// BenchmarkFloats reads the values of a picture in JSON, beside encoding/json.
func BenchmarkFloats(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 2))
	values := make([]float32, 3*224*224)
	for i := range values {
		values[i] = rnd.Float32()
	}
	data, _ := json.Marshal(values)
	body := []byte(one(`"data":` + string(data) + `,"datatype":"FP32","shape":[3,224,224]`))
	b.Run("weir", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			if _, err := Decode(body, len(body), nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("json", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			var r struct{ Inputs []struct{ Data []float32 } }
			if err := json.Unmarshal(body, &r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("write", func(b *testing.B) {
		r := Response{Outputs: []Value{{Name: "y", Tensor: tensor.From(values, len(values))}}}
		var out []byte
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			out, _, _ = r.Append(out[:0])
		}
	})
}
