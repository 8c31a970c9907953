package oip

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "github.com/weirgpu/weir/server/oip/inferencepb"
	"github.com/weirgpu/weir/tensor"
)

// written is a message as protobuf's own code writes it.
func written(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// input is an input of a request.
func input(datatype string, shape []int64, c *pb.InferTensorContents) *pb.ModelInferRequest {
	return &pb.ModelInferRequest{Inputs: []*pb.ModelInferRequest_InferInputTensor{
		{Name: "x", Datatype: datatype, Shape: shape, Contents: c}}}
}

// raw is a request with raw contents.
func raw(datatype string, shape []int64, contents ...[]byte) *pb.ModelInferRequest {
	r := input(datatype, shape, nil)
	r.RawInputContents = contents
	return r
}

// TestContents: elements of each type come as they were sent, in contents and raw.
func TestContents(t *testing.T) {
	for _, c := range []struct {
		datatype string
		contents *pb.InferTensorContents
		want     *tensor.Tensor
	}{
		{"BOOL", &pb.InferTensorContents{BoolContents: []bool{true, false}},
			tensor.From([]bool{true, false}, 2)},
		{"INT8", &pb.InferTensorContents{IntContents: []int32{-128, 127}},
			tensor.From([]int8{-128, 127}, 2)},
		{"INT16", &pb.InferTensorContents{IntContents: []int32{-32768, 32767}},
			tensor.From([]int16{-32768, 32767}, 2)},
		{"INT32", &pb.InferTensorContents{IntContents: []int32{math.MinInt32, 1}},
			tensor.From([]int32{math.MinInt32, 1}, 2)},
		{"INT64", &pb.InferTensorContents{Int64Contents: []int64{math.MinInt64, 1}},
			tensor.From([]int64{math.MinInt64, 1}, 2)},
		{"UINT8", &pb.InferTensorContents{UintContents: []uint32{0, 255}},
			tensor.From([]uint8{0, 255}, 2)},
		{"UINT16", &pb.InferTensorContents{UintContents: []uint32{0, 65535}},
			tensor.From([]uint16{0, 65535}, 2)},
		{"UINT32", &pb.InferTensorContents{UintContents: []uint32{0, math.MaxUint32}},
			tensor.From([]uint32{0, math.MaxUint32}, 2)},
		{"UINT64", &pb.InferTensorContents{Uint64Contents: []uint64{0, math.MaxUint64}},
			tensor.From([]uint64{0, math.MaxUint64}, 2)},
		{"FP32", &pb.InferTensorContents{Fp32Contents: []float32{1.5, -0.1}},
			tensor.From([]float32{1.5, -0.1}, 2)},
		{"FP64", &pb.InferTensorContents{Fp64Contents: []float64{1.5, -0.1}},
			tensor.From([]float64{1.5, -0.1}, 2)},
		{"BYTES", &pb.InferTensorContents{BytesContents: [][]byte{{0xff, 0}, {}}},
			tensor.FromStrings([]string{"\xff\x00", ""}, 2)},
	} {
		for way, m := range map[string]*pb.ModelInferRequest{
			"contents": input(c.datatype, []int64{2}, c.contents),
			"raw":      raw(c.datatype, []int64{2}, AppendBytes(nil, c.want)),
		} {
			r, err := DecodeMessage(nil, written(t, m))
			if err != nil {
				t.Errorf("%s, %s: %v", c.datatype, way, err)
				continue
			}
			if got := r.Inputs[0].Tensor; !tensor.Equal(got, c.want) || r.Inputs[0].Name != "x" {
				t.Errorf("%s, %s: %v, want %v", c.datatype, way, got, c.want)
			}
		}
	}
	for _, name := range []string{"FP16", "BF16"} {
		r, err := DecodeMessage(nil, written(t, raw(name, []int64{1}, []byte{1, 2})))
		if err != nil || len(r.Inputs[0].Tensor.Data) != 2 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUnpacked: protobuf allows numbers one by one, contents in parts, and fields that are not
// known.
func TestUnpacked(t *testing.T) {
	var c []byte
	for _, v := range []uint64{7, 9} {
		c = protowire.AppendVarint(protowire.AppendTag(c, 2, protowire.VarintType), v)
	}
	b := appendString(nil, 1, "x")
	b = appendBytes(b, 5, c[:2])
	b = protowire.AppendVarint(protowire.AppendTag(b, 3, protowire.VarintType), 2)
	b = protowire.AppendFixed32(protowire.AppendTag(b, 99, protowire.Fixed32Type), 1)
	b = appendString(b, 2, "INT32")
	b = appendBytes(b, 5, c[2:])
	r, err := DecodeMessage(nil, appendBytes(nil, 5, b))
	if err != nil {
		t.Fatal(err)
	}
	if want := tensor.From([]int32{7, 9}, 2); !tensor.Equal(r.Inputs[0].Tensor, want) {
		t.Errorf("%v, want %v", r.Inputs[0].Tensor, want)
	}
}

// parameterOf are parameters of each kind.
func parameterOf() map[string]*pb.InferParameter {
	return map[string]*pb.InferParameter{
		"b": {ParameterChoice: &pb.InferParameter_BoolParam{BoolParam: false}},
		"i": {ParameterChoice: &pb.InferParameter_Int64Param{Int64Param: -5}},
		"s": {ParameterChoice: &pb.InferParameter_StringParam{StringParam: ""}},
		"d": {ParameterChoice: &pb.InferParameter_DoubleParam{DoubleParam: 0.5}},
		"u": {ParameterChoice: &pb.InferParameter_Uint64Param{Uint64Param: 5}},
		"v": {ParameterChoice: &pb.InferParameter_Uint64Param{Uint64Param: 1 << 63}},
	}
}

// TestMessageFields: what a request says beside its values, and where they are.
func TestMessageFields(t *testing.T) {
	three := &pb.InferParameter{ParameterChoice: &pb.InferParameter_Int64Param{Int64Param: 3}}
	name := &pb.InferParameter{ParameterChoice: &pb.InferParameter_StringParam{StringParam: "r"}}
	m := raw("FP32", []int64{1}, []byte{0, 0, 128, 63})
	m.ModelName, m.ModelVersion, m.Id, m.Parameters = "m", "3", "7", parameterOf()
	m.Inputs = append([]*pb.ModelInferRequest_InferInputTensor{{Name: "shared", Datatype: "INT8",
		Shape: []int64{3}, Parameters: map[string]*pb.InferParameter{"shared_memory_region": name,
			"shared_memory_byte_size": three}}}, m.Inputs...)
	m.Outputs = []*pb.ModelInferRequest_InferRequestedOutputTensor{{Name: "y",
		Parameters: map[string]*pb.InferParameter{"classification": three}},
		{Name: "z", Parameters: map[string]*pb.InferParameter{"shared_memory_region": name,
			"shared_memory_byte_size": three, "shared_memory_offset": three}}}
	r, err := DecodeMessage(nil, written(t, m))
	if err != nil {
		t.Fatal(err)
	}
	want := Parameters{"b": false, "i": int64(-5), "s": "", "d": 0.5, "u": int64(5),
		"v": float64(1 << 63)}
	if r.Model != "m" || r.Version != "3" || r.ID != "7" || !reflect.DeepEqual(r.Parameters, want) {
		t.Errorf("%+v", r)
	}
	in := r.Inputs[0]
	if *in.Region != (Region{"r", 0, 3}) || in.Tensor.Data != nil || in.Tensor.Len() != 3 ||
		tensor.As[float32](r.Inputs[1].Tensor)[0] != 1 {
		t.Errorf("inputs %+v", r.Inputs)
	}
	if o := r.Outputs; o[0].Classes != 3 || o[0].Region != nil || *o[1].Region != (Region{"r", 3,
		3}) {
		t.Errorf("outputs %+v", o)
	}
}

// TestMessageRefuses: every wrong message is an error of kind ErrRequest that says what is wrong.
func TestMessageRefuses(t *testing.T) {
	ints := &pb.InferTensorContents{IntContents: []int32{1}}
	both := input("INT32", []int64{1}, ints)
	both.RawInputContents = [][]byte{{1, 0, 0, 0}}
	two := raw("INT8", []int64{1}, []byte{1})
	two.Inputs = append(two.Inputs, two.Inputs[0])
	outputs := &pb.ModelInferRequest{}
	for range MaxValues + 1 {
		outputs.Outputs = append(outputs.Outputs, &pb.ModelInferRequest_InferRequestedOutputTensor{
			Name: "y"})
	}
	parameter := &pb.ModelInferRequest{Parameters: map[string]*pb.InferParameter{"a": {}}}
	region := func(p map[string]*pb.InferParameter) *pb.ModelInferRequest {
		m := input("INT8", []int64{1}, nil)
		m.Inputs[0].Parameters = p
		return m
	}
	size := &pb.InferParameter{ParameterChoice: &pb.InferParameter_Int64Param{Int64Param: -1}}
	name := &pb.InferParameter{ParameterChoice: &pb.InferParameter_StringParam{StringParam: "r"}}
	for _, c := range []struct {
		m    *pb.ModelInferRequest
		says string
	}{
		{both, "excludes"},
		{two, "none for this input"},
		{raw("INT8", []int64{1}, []byte{1}, []byte{2}), "2 entries"},
		{raw("FP32", []int64{1}, []byte{1}), "takes 4 bytes"},
		{raw("FP32", []int64{-1}, []byte{1}), "not negative"},
		{raw("FP32", []int64{1 << 62, 4}, nil), "address space"},
		{raw("FP32", []int64{1 << 61}, []byte{}), "address space"},
		{raw("BYTES", []int64{1 << 40}, []byte{1, 0, 0, 0, 'a'}), "too few"},
		{raw("BYTES", []int64{1}, []byte{5, 0, 0, 0, 'a'}), "5 bytes"},
		{raw("BOOL", []int64{1}, []byte{2}), "0 or 1"},
		{input("FP16", []int64{1}, nil), "raw_input_contents only"},
		{input("BF16", []int64{1}, nil), "raw_input_contents only"},
		{input("FP32", []int64{1}, ints), "fp32_contents"},
		{input("INT32", []int64{2}, ints), "1 elements"},
		{input("INT32", []int64{0}, ints), "more than"},
		{input("INT32", []int64{1 << 40}, ints), "too few"},
		{input("INT32", []int64{1}, nil), "too few"},
		{input("INT8", []int64{1}, &pb.InferTensorContents{IntContents: []int32{128}}), "no INT8"},
		{input("UINT8", []int64{1}, &pb.InferTensorContents{UintContents: []uint32{256}}),
			"no UINT8"},
		{input("fp32", []int64{1}, nil), "capitals"},
		{input("", []int64{1}, nil), "must be given"},
		{outputs, "more than 4096 outputs"},
		{parameter, "has no value"},
		{region(map[string]*pb.InferParameter{"shared_memory_region": name}), "byte_size"},
		{region(map[string]*pb.InferParameter{"shared_memory_byte_size": size}), "without"},
		{region(map[string]*pb.InferParameter{"shared_memory_region": size}), "give a name"},
		{region(map[string]*pb.InferParameter{"shared_memory_region": name,
			"shared_memory_byte_size": size}), "byte_size"},
	} {
		_, err := DecodeMessage(nil, written(t, c.m))
		if !errors.Is(err, ErrRequest) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.200v: %v, want %q of kind ErrRequest", c.m, err, c.says)
		}
	}
	for says, b := range map[string][]byte{
		"number 0":      {0x00, 1},
		"group":         {0x0b},
		"64 bits":       {0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2},
		"0 are there":   {0x0a, 1},
		"wire type 0":   {0x08, 1},
		"not UTF-8":     {0x0a, 1, 0xff},
		"within a numb": {0x2a, 3, 0x1a, 1, 0x80},
	} {
		if _, err := DecodeMessage(nil, b); !errors.Is(err, ErrRequest) ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, want %q of kind ErrRequest", b, err, says)
		}
	}
}

// TestInPlace: raw contents are not copied where they lie in one piece.
func TestInPlace(t *testing.T) {
	b := written(t, raw("UINT8", []int64{4}, []byte{1, 2, 3, 4}))
	r, err := DecodeMessage(nil, b)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-1] = 9
	if got := r.Inputs[0].Tensor.Data[3]; got != 9 {
		t.Errorf("the last byte is %d after the message was changed", got)
	}
}

// answered is an answer with all that one can have.
func answered() *Response {
	return &Response{Model: "m", Version: "1", ID: "7", Parameters: Parameters{
		"triton_final_response": true, "n": int64(-3), "s": "", "f": 0.5}, Outputs: []Value{
		{Name: "y", Tensor: tensor.From([]float32{1, 2}, 1, 2)},
		{Name: "away", Tensor: tensor.From([]int8{1}, 1), Region: &Region{"r", 5, 1}},
		{Name: "s", Tensor: tensor.FromStrings([]string{"ab"}, 1)},
		{Name: "scalar", Tensor: tensor.From([]int64{5})}}}
}

// TestAppendMessage: protobuf's own code reads what was written, alone and in a stream.
func TestAppendMessage(t *testing.T) {
	text := func(s string) *pb.InferParameter {
		return &pb.InferParameter{ParameterChoice: &pb.InferParameter_StringParam{StringParam: s}}
	}
	number := func(n int64) *pb.InferParameter {
		return &pb.InferParameter{ParameterChoice: &pb.InferParameter_Int64Param{Int64Param: n}}
	}
	want := &pb.ModelInferResponse{ModelName: "m", ModelVersion: "1", Id: "7",
		Parameters: map[string]*pb.InferParameter{
			"triton_final_response": {ParameterChoice: &pb.InferParameter_BoolParam{
				BoolParam: true}},
			"n": number(-3), "s": text(""),
			"f": {ParameterChoice: &pb.InferParameter_DoubleParam{DoubleParam: 0.5}}},
		Outputs: []*pb.ModelInferResponse_InferOutputTensor{
			{Name: "y", Datatype: "FP32", Shape: []int64{1, 2}},
			{Name: "away", Datatype: "INT8", Shape: []int64{1},
				Parameters: map[string]*pb.InferParameter{"shared_memory_region": text("r"),
					"shared_memory_offset": number(5), "shared_memory_byte_size": number(1)}},
			{Name: "s", Datatype: "BYTES", Shape: []int64{1}},
			{Name: "scalar", Datatype: "INT64"}},
		RawOutputContents: [][]byte{{0, 0, 128, 63, 0, 0, 0, 64}, {}, {2, 0, 0, 0, 'a', 'b'},
			{5, 0, 0, 0, 0, 0, 0, 0}}}
	r := answered()
	one, err := r.AppendMessage([]byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	streamed, err := r.AppendStreamed([]byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	if n := r.MessageSize(); n < len(streamed) || n > len(streamed)+2000 {
		t.Errorf("%d bytes were expected, and %d written", n, len(streamed))
	}
	var got pb.ModelInferResponse
	if err := proto.Unmarshal(one[1:], &got); err != nil || !proto.Equal(&got, want) {
		t.Errorf("%v\n%v\nwant\n%v", err, &got, want)
	}
	var in pb.ModelStreamInferResponse
	if err := proto.Unmarshal(streamed[1:], &in); err != nil || !proto.Equal(in.InferResponse,
		want) || in.ErrorMessage != "" {
		t.Errorf("%v\n%v\nwant\n%v", err, &in, want)
	}
	r.Outputs[0].Tensor = &tensor.Tensor{DType: tensor.Complex64, Shape: []int{0}}
	if _, err := r.AppendMessage(nil); !errors.Is(err, ErrRequest) {
		t.Errorf("an answer of a type without a name: %v", err)
	}
}

// FuzzMessage: whatever a message and its pieces, there is an error of kind ErrRequest, or the same
// values as protobuf's own code reads; never a panic, and no more memory than a small multiple.
func FuzzMessage(f *testing.F) {
	full := raw("BYTES", []int64{1}, []byte{1, 0, 0, 0, 'a'})
	full.ModelName, full.Parameters = "m", parameterOf()
	for _, m := range []*pb.ModelInferRequest{full, input("INT8", []int64{2},
		&pb.InferTensorContents{IntContents: []int32{1, -1}})} {
		f.Add(written(f, m), uint16(7))
	}
	f.Fuzz(func(t *testing.T, b []byte, at uint16) {
		r, err := DecodeMessage(nil, b)
		cut := min(int(at), len(b))
		split, splitErr := DecodeMessage(nil, b[:cut/2], b[cut/2:cut], nil, b[cut:])
		if (err == nil) != (splitErr == nil) {
			t.Fatalf("in one piece %v, in several %v", err, splitErr)
		}
		if err != nil {
			if !errors.Is(err, ErrRequest) {
				t.Fatal(err)
			}
			return
		}
		var want pb.ModelInferRequest
		if err := proto.Unmarshal(b, &want); err != nil {
			t.Fatalf("%v was read, which protobuf does not: %v", r, err)
		}
		if r.Model != want.ModelName || r.ID != want.Id || len(r.Inputs) != len(want.Inputs) ||
			len(r.Outputs) != len(want.Outputs) || len(r.Parameters) != len(want.Parameters) {
			t.Fatalf("%+v, want %v", r, &want)
		}
		for i, in := range r.Inputs {
			other := split.Inputs[i].Tensor
			if in.Region == nil && (in.Tensor.Check() != nil || !tensor.Equal(in.Tensor, other)) {
				t.Fatalf("input %v, in pieces %v", in.Tensor, other)
			}
		}
	})
}
