package onnx

import (
	"errors"
	"math"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// packed makes a packed repeated field of varints, spread one field an element in turn, as old
// writers do.
func packed(num int, v ...uint64) part {
	var b []byte
	for _, x := range v {
		b = protowire.AppendVarint(b, x)
	}
	return blob(num, b)
}

func spread(num int, v ...uint64) part {
	return func(m *message) {
		for _, x := range v {
			m.int(protowire.Number(num), int64(x))
		}
	}
}

func neg(v int64) uint64 { return uint64(v) }

func TestTypedFields(t *testing.T) {
	f32, f64 := tensor.Bytes([]float32{1.5, -2}), tensor.Bytes([]float64{1.5, -2})
	cases := []struct {
		name  string
		dtype tensor.DType
		data  part
		want  *tensor.Tensor
	}{
		{"float packed", tensor.Float32, blob(4, f32), tensor.From([]float32{1.5, -2}, 2)},
		{"float unpacked", tensor.Float32, func(m *message) {
			m.float(4, 1.5)
			m.float(4, -2)
		}, tensor.From([]float32{1.5, -2}, 2)},
		{"float in two runs", tensor.Float32, func(m *message) {
			m.bytes(4, f32[:4])
			m.bytes(4, f32[4:])
		}, tensor.From([]float32{1.5, -2}, 2)},
		{"double", tensor.Float64, blob(10, f64), tensor.From([]float64{1.5, -2}, 2)},
		{"int32", tensor.Int32, packed(5, neg(-1), 7), tensor.From([]int32{-1, 7}, 2)},
		{"int32 unpacked", tensor.Int32, spread(5, neg(-1), 7), tensor.From([]int32{-1, 7}, 2)},
		{"int16", tensor.Int16, packed(5, neg(-3), 300), tensor.From([]int16{-3, 300}, 2)},
		{"int8", tensor.Int8, packed(5, neg(-3), 100), tensor.From([]int8{-3, 100}, 2)},
		{"uint8", tensor.Uint8, packed(5, 200, 1), tensor.From([]uint8{200, 1}, 2)},
		{"uint16", tensor.Uint16, packed(5, 60000, 1), tensor.From([]uint16{60000, 1}, 2)},
		{"bool", tensor.Bool, packed(5, 2, 0), tensor.From([]bool{true, false}, 2)},
		{"float16", tensor.Float16, packed(5, 0x3c00, 0xc000),
			tensor.From([]tensor.Half{0x3c00, 0xc000}, 2)},
		{"bfloat16", tensor.BFloat16, packed(5, 0x3f80, 0xc000),
			tensor.From([]tensor.BHalf{0x3f80, 0xc000}, 2)},
		{"float8", tensor.Float8E4M3FN, packed(5, 0x38, 0xff),
			tensor.FromCodes(tensor.Float8E4M3FN, []uint8{0x38, 0xff}, 2)},
		{"float8 scale", tensor.Float8E8M0, spread(5, 0x80, 0),
			tensor.FromCodes(tensor.Float8E8M0, []uint8{0x80, 0}, 2)},
		{"int4", tensor.Int4, packed(5, 0xf7), tensor.FromCodes(tensor.Int4, []uint8{7, 15}, 2)},
		{"float4 with a sign", tensor.Float4E2M1, packed(5, neg(-1)),
			tensor.FromCodes(tensor.Float4E2M1, []uint8{15, 15}, 2)},
		{"uint2 with padding", tensor.Uint2, packed(5, 0xf6),
			tensor.FromCodes(tensor.Uint2, []uint8{2, 1}, 2)},
		{"raw int2", tensor.Int2, blob(9, []byte{0x0b}),
			tensor.FromCodes(tensor.Int2, []uint8{3, 2}, 2)},
		{"int64", tensor.Int64, packed(7, neg(math.MinInt64), math.MaxInt64),
			tensor.From([]int64{math.MinInt64, math.MaxInt64}, 2)},
		{"uint32", tensor.Uint32, packed(11, math.MaxUint32, 1),
			tensor.From([]uint32{math.MaxUint32, 1}, 2)},
		{"uint64", tensor.Uint64, spread(11, math.MaxUint64, 1),
			tensor.From([]uint64{math.MaxUint64, 1}, 2)},
		{"complex64", tensor.Complex64, blob(4, tensor.Bytes([]float32{1, 2, 3, 4})),
			tensor.From([]complex64{1 + 2i, 3 + 4i}, 2)},
		{"complex128", tensor.Complex128, blob(10, tensor.Bytes([]float64{1, 2, 3, 4})),
			tensor.From([]complex128{1 + 2i, 3 + 4i}, 2)},
		{"string", tensor.String, func(m *message) {
			m.str(6, "a")
			m.str(6, "\xff")
		}, tensor.FromStrings([]string{"a", "\xff"}, 2)},
		{"raw", tensor.Int16, blob(9, tensor.Bytes([]int16{-3, 300})),
			tensor.From([]int16{-3, 300}, 2)},
		{"raw bool that is neither 0 nor 1", tensor.Bool, blob(9, []byte{2, 0}),
			tensor.From([]bool{true, false}, 2)},
	}
	for _, c := range cases {
		got, err := DecodeTensor(
			join(msg(number(1, 2), number(2, int64(c.dtype)), text(8, "t"), c.data)))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if err := got.Check(); err != nil || !tensor.Equal(got, c.want) {
			t.Errorf("%s: got %v (%v), want %v", c.name, got, err, c.want)
		}
	}
}

func TestTensorRoundTrip(t *testing.T) {
	for d := tensor.Float32; d <= tensor.Int2; d++ {
		for _, shape := range [][]int{{}, {0}, {3}, {2, 0, 5}, {2, 3}} {
			want, err := tensor.New(d, shape...)
			if err != nil {
				t.Fatal(err)
			}
			for i := range want.Data {
				want.Data[i] = byte(i)
				if d == tensor.Bool {
					want.Data[i] &= 1
				}
			}
			for i := range want.Strings {
				want.Strings[i] = string(rune('a' + i))
			}
			b, err := EncodeTensor("t", want)
			if err != nil {
				t.Fatal(err)
			}
			got, err := DecodeTensor(b)
			if err != nil || !tensor.Equal(got, want) {
				t.Errorf("%v%v: got %v, %v", d, shape, got, err)
			}
		}
	}
}

// TestRawDataIsAView holds the promise that weights are not copied.
func TestRawDataIsAView(t *testing.T) {
	b := join(msg(number(1, 2), number(2, 1), blob(9, tensor.Bytes([]float32{1, 2}))))
	got, err := DecodeTensor(b)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] = 0
	}
	if v := tensor.As[float32](got); v[0] != 0 || v[1] != 0 {
		t.Errorf("got %v after the message was zeroed: raw_data was copied", v)
	}
}

func TestTensorsRefused(t *testing.T) {
	cases := []struct {
		name  string
		kind  error
		parts []part
	}{
		{"no type", ErrFormat, []part{number(1, 1)}},
		{"too little raw data", ErrFormat,
			[]part{number(1, 2), number(2, 1), blob(9, make([]byte, 7))}},
		{"too much raw data", ErrFormat,
			[]part{number(1, 2), number(2, 1), blob(9, make([]byte, 9))}},
		{"no data", ErrFormat, []part{number(1, 2), number(2, 1)}},
		{"too much raw data of 4 bits", ErrFormat,
			[]part{number(1, 3), number(2, 22), blob(9, make([]byte, 3))}},
		{"elements of 2 bits that are not packed", ErrFormat,
			[]part{number(1, 4), number(2, 25), packed(5, 0, 1, 2, 3)}},
		{"too few integers", ErrFormat, []part{number(1, 2), number(2, 7), packed(7, 1)}},
		{"broken integer", ErrFormat,
			[]part{number(1, 1), number(2, 7), blob(7, []byte{0xff, 0xff})}},
		{"long integer", ErrFormat,
			[]part{number(1, 1), number(2, 7),
				blob(7, append(make([]byte, 0), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
					0xff, 0xff, 0xff, 1))}},
		{"half a float", ErrFormat, []part{number(1, 1), number(2, 1), blob(4, make([]byte, 3))}},
		{"strings in raw data", ErrFormat,
			[]part{number(1, 1), number(2, 8), blob(9, []byte("a"))}},
		{"segment", op.ErrUnsupported,
			[]part{number(1, 1), number(2, 1), sub(3), blob(9, make([]byte, 4))}},
		{"wrong wire type", ErrFormat, []part{text(2, "float")}},
		{"rank 65", ErrFormat, []part{blob(1, make([]byte, 65)), number(2, 1)}},
	}
	for _, c := range cases {
		if _, err := DecodeTensor(join(msg(c.parts...))); !errors.Is(err, c.kind) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.kind)
		}
	}
}

func TestSparse(t *testing.T) {
	indices := func(shape []int, v ...int64) part {
		parts := []part{number(2, 7), blob(9, tensor.Bytes(v))}
		for _, n := range shape {
			parts = append(parts, number(1, int64(n)))
		}
		return sub(2, parts...)
	}
	dims := func(v ...int64) part {
		return func(m *message) {
			for _, n := range v {
				m.int(3, n)
			}
		}
	}
	cases := []struct {
		name string
		part []part
		kind error
	}{
		{"linear", []part{indices([]int{2}, 0, 3), dims(2, 2)}, nil},
		{"coordinates", []part{indices([]int{2, 2}, 0, 0, 1, 1), dims(2, 2)}, nil},
		{"linear out of range", []part{indices([]int{2}, 0, 4), dims(2, 2)}, ErrFormat},
		{"coordinate out of range", []part{indices([]int{2, 2}, 0, 0, 1, 2), dims(2, 2)},
			ErrFormat},
		{"negative coordinate", []part{indices([]int{2, 2}, 0, 0, -1, 1), dims(2, 2)}, ErrFormat},
		{"wrong count", []part{indices([]int{3}, 0, 1, 2), dims(2, 2)}, ErrFormat},
		{"too large", []part{indices([]int{2}, 0, 3), dims(1<<20, 1<<20)}, op.ErrUnsupported},
	}
	for _, c := range cases {
		g := []part{out("w"), sub(15, append([]part{sub(1, vector("w", 5, 6)...)}, c.part...)...)}
		m, err := Decode(modelOf(g...), "", Options{})
		if c.kind != nil || err != nil {
			if !errors.Is(err, c.kind) {
				t.Errorf("%s: got %v, want %v", c.name, err, c.kind)
			}
			continue
		}
		want := tensor.From([]float32{5, 0, 0, 6}, 2, 2)
		if got := m.Graph.Outputs[0].Const(); !tensor.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", c.name, got, want)
		}
	}
}
