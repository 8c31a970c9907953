package onnx

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// seeds are small models of every feature; with the ONNX test data, real ones too.
func seeds(t testing.TB) [][]byte {
	s := [][]byte{nested(), modelOf(in("x"), out("y"), node("Relu", "x->y")),
		withFunctions([]part{in("x"), out("y"), callOf("Leak", "x->y")}, leak),
		modelOf(out("w"), external("location", "w.bin", "offset", "4"))}
	files, err := smallModels(t)
	if err != nil {
		t.Log(err)
	}
	return append(s, files...)
}

// tryDecode reads bytes that may be anything; the graph, if there is one, must be valid and survive
// being written.
func tryDecode(t *testing.T, b []byte) {
	m, err := Decode(b, "", Options{})
	if err != nil {
		return
	}
	if err := m.Graph.Check(); err != nil {
		t.Errorf("a graph that does not hold: %v", err)
	}
	if err := Write(&bytes.Buffer{}, m.Graph, WriteOptions{}); err != nil {
		t.Logf("cannot be written: %v", err)
	}
	m.Close()
}

// mutate damages a model: bits, length fields, truncation, pieces of another.
func mutate(r *rand.Rand, b, other []byte) []byte {
	b = bytes.Clone(b)
	for range 1 + r.IntN(4) {
		if len(b) < 4 {
			return b
		}
		i := r.IntN(len(b))
		switch r.IntN(7) {
		case 0:
			b[i] ^= 1 << r.IntN(8)
		case 1:
			b[i] = byte(r.Uint32())
		case 2:
			b = b[:i]
		case 3: // a length or number becomes huge
			b = append(b[:i:i],
				append(binary.AppendUvarint(nil, r.Uint64()>>r.IntN(64)), b[i+1:]...)...)
		case 4: // splice
			j := r.IntN(len(other))
			b = append(b[:i:i], other[j:]...)
		case 5: // repeat a piece
			j := i + r.IntN(len(b)-i)
			b = append(b[:j:j], b[i:]...)
		case 6: // cut a piece out
			j := i + r.IntN(min(16, len(b)-i))
			b = append(b[:i:i], b[j:]...)
		}
	}
	return b
}

// TestMutations reads ten thousand damaged models. Each is refused or becomes a valid graph; none
// may take memory out of proportion.
func TestMutations(t *testing.T) {
	s := seeds(t)
	r := rand.New(rand.NewPCG(1, 2))
	var before, after runtime.MemStats
	var most uint64
	for range 10_000 {
		b := mutate(r, s[r.IntN(len(s))], s[r.IntN(len(s))])
		runtime.ReadMemStats(&before)
		tryDecode(t, b)
		runtime.ReadMemStats(&after)
		most = max(most, after.TotalAlloc-before.TotalAlloc)
	}
	if most > 64<<20 {
		t.Errorf("one damaged model took %d bytes", most)
	}
}

func FuzzDecode(f *testing.F) {
	for _, b := range seeds(f) {
		f.Add(b)
	}
	f.Fuzz(tryDecode)
}

func FuzzDecodeTensor(f *testing.F) {
	f.Add(join(msg(vector("t", 1, 2)...)))
	f.Add(join(msg(number(1, 2), number(2, 7), packed(7, 1, neg(-1)))))
	f.Add(join(msg(number(1, 1), number(2, 8), text(6, "a"))))
	for d := tensor.Float32; d <= tensor.Int2; d++ {
		f.Add(join(msg(number(1, 3), number(2, int64(d)), blob(9, []byte{0x12, 0x34}))))
		f.Add(join(msg(number(1, 3), number(2, int64(d)), packed(5, 0x12, neg(-1)))))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := DecodeTensor(b)
		if err != nil {
			return
		}
		if err := got.Check(); err != nil {
			t.Errorf("a tensor that does not hold: %v", err)
		}
		for i := range got.Len() {
			_ = got.At(i)
		}
		again, err := EncodeTensor("", got)
		if err != nil {
			t.Fatalf("%v cannot be written: %v", got, err)
		}
		if back, err := DecodeTensor(again); err != nil || !tensor.Equal(got, back) {
			t.Errorf("%v was written and read as %v, %v", got, back, err)
		}
	})
}

// smallModels returns a few dozen models of the ONNX test data, none when there is no data.
func smallModels(t testing.TB) ([][]byte, error) {
	var out [][]byte
	for i, path := range testFiles(t) {
		if i%25 != 0 {
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if len(b) < 64<<10 {
			out = append(out, b)
		}
	}
	return out, nil
}
