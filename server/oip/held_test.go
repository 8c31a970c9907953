package oip

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	pb "github.com/weirgpu/weir/server/oip/inferencepb"
	"github.com/weirgpu/weir/tensor"
)

// purse is memory of which requests may have so much.
type purse struct{ left, taken int64 }

var errPurse = errors.New("the purse is empty")

// Hold implements Holder.
func (p *purse) Hold(bytes int64) error {
	if bytes > p.left {
		return errPurse
	}
	p.left -= bytes
	p.taken += bytes
	return nil
}

// growing are requests of few bytes an element, of n elements each.
func growing(t *testing.T, n int) map[string]func(Holder) (*Request, error) {
	body := func(datatype, element string) func(Holder) (*Request, error) {
		b := fmt.Appendf(nil, `{"inputs":[{"name":"x","datatype":%q,"shape":[%d],"data":[%s%s]}]}`,
			datatype, n, strings.Repeat(element+",", n-1), element)
		return func(h Holder) (*Request, error) { return Decode(b, len(b), h) }
	}
	message := func(m *pb.ModelInferRequest) func(Holder) (*Request, error) {
		b := written(t, m)
		return func(h Holder) (*Request, error) {
			m, err := DecodeMessage(h, b)
			if err != nil {
				return nil, err
			}
			return &m.Request, nil
		}
	}
	input := func(datatype string, c *pb.InferTensorContents) *pb.ModelInferRequest {
		return &pb.ModelInferRequest{Inputs: []*pb.ModelInferRequest_InferInputTensor{{Name: "x",
			Datatype: datatype, Shape: []int64{int64(n)}, Contents: c}}}
	}
	words := bytes.Repeat(binary.LittleEndian.AppendUint32(nil, 0), n)
	head := fmt.Sprintf(`{"inputs":[{"name":"x","datatype":"BYTES","shape":[%d],"parameters":`+
		`{"binary_data_size":%d}}]}`, n, len(words))
	both := append([]byte(head), words...)
	texts := input("BYTES", &pb.InferTensorContents{BytesContents: make([][]byte, n)})
	raw := input("BYTES", nil)
	raw.RawInputContents = [][]byte{words}
	return map[string]func(Holder) (*Request, error){
		"FP64 in JSON":  body("FP64", "0"),
		"BYTES in JSON": body("BYTES", `""`),
		"BYTES":         func(h Holder) (*Request, error) { return Decode(both, len(head), h) },
		"INT64": message(input("INT64", &pb.InferTensorContents{
			Int64Contents: make([]int64, n)})),
		"text": message(texts),
		"raw":  message(raw),
	}
}

// TestHeld: memory of which a client can make much with few bytes is asked for before it is taken.
func TestHeld(t *testing.T) {
	const n = 100_000
	for name, decode := range growing(t, n) {
		all := &purse{left: 1 << 40}
		r, err := decode(all)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		x := r.Inputs[0].Tensor
		if has := int64(len(x.Data) + textBytes*len(x.Strings)); all.taken < has {
			t.Errorf("%s: it has %d bytes, and asked for %d", name, has, all.taken)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = decode(&purse{left: all.taken - 1})
		runtime.ReadMemStats(&after)
		if !errors.Is(err, errPurse) || errors.Is(err, ErrRequest) {
			t.Errorf("%s: with a byte less: %v", name, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > n {
			t.Errorf("%s: %d bytes were taken that nobody gave", name, took)
		}
	}
}

// TestAnnounced: no memory is asked for elements of which less came than one has at least.
func TestAnnounced(t *testing.T) {
	for name, decode := range map[string]func(Holder) error{
		"FP64": func(h Holder) error {
			b := []byte(`{"inputs":[{"name":"x","datatype":"FP64","shape":[6],"data":[1,2,3]}]}`)
			_, err := Decode(b, len(b), h)
			return err
		},
		"FP32 as message": func(h Holder) error {
			_, err := contents(tensor.Float32, []int{3}, []field{{bytes: make([]byte, 11)}}, h)
			return err
		},
		"BYTES as message": func(h Holder) error {
			_, err := contents(tensor.String, []int{6}, []field{{bytes: make([]byte, 11)}}, h)
			return err
		},
	} {
		p := &purse{left: 1 << 40}
		if err := decode(p); !errors.Is(err, ErrRequest) || p.taken > 0 {
			t.Errorf("%s: %v, and %d bytes", name, err, p.taken)
		}
	}
}

// TestRank: a shape has no more dimensions than any tensor, and its error is short.
func TestRank(t *testing.T) {
	shape := func(n int) []byte {
		return []byte(`{"inputs":[{"name":"x","datatype":"FP32","shape":[` +
			strings.Repeat("1,", n-1) + `1],"data":[1]}]}`)
	}
	if b := shape(MaxRank); true {
		if _, err := Decode(b, len(b), nil); err != nil {
			t.Error(err)
		}
	}
	b := shape(MaxRank + 1)
	_, err := Decode(b, len(b), nil)
	m := raw("FP32", make([]int64, MaxRank+1), nil)
	_, other := DecodeMessage(nil, written(t, m))
	for _, err := range []error{err, other} {
		if !errors.Is(err, ErrRequest) || !strings.Contains(err.Error(), "64 dimensions") {
			t.Error(err)
		}
	}
}

// TestManyInAll: what a request has in lists is bounded over all of its inputs and outputs.
func TestManyInAll(t *testing.T) {
	m := &pb.ModelInferRequest{}
	for i := range MaxValues {
		o := &pb.ModelInferRequest_InferRequestedOutputTensor{Name: fmt.Sprint(i),
			Parameters: map[string]*pb.InferParameter{}}
		for k := range 5 {
			o.Parameters[fmt.Sprint(k)] = &pb.InferParameter{
				ParameterChoice: &pb.InferParameter_BoolParam{}}
		}
		m.Outputs = append(m.Outputs, o)
	}
	_, err := DecodeMessage(nil, written(t, m))
	if !errors.Is(err, ErrRequest) || !strings.Contains(err.Error(), "parameters") {
		t.Error(err)
	}
	one := `{"name":"x","parameters":{"a":1,"b":2,"c":3,"d":4,"e":5}},`
	b := []byte(`{"outputs":[` + strings.Repeat(one, MaxValues-1) + `{"name":"y"}]}`)
	_, err = Decode(b, len(b), nil)
	if !errors.Is(err, ErrRequest) || !strings.Contains(err.Error(), "parameters") {
		t.Error(err)
	}
	input := append([]byte{0x0a, 1, 'x'}, bytes.Repeat([]byte{0x2a, 0}, MaxValues-1)...)
	two := appendBytes(appendBytes(nil, 5, input), 5, input)
	_, err = DecodeMessage(nil, two)
	if !errors.Is(err, ErrRequest) || !strings.Contains(err.Error(), "contents") {
		t.Error(err)
	}
}
