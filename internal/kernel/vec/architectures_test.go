package vec

import (
	"hash/fnv"
	"math"
	"testing"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// TestSameBitsOnEveryArchitecture holds that the transcendental functions, which plain Go computes
// otherwise, have the same bits with the vectors of amd64 and those of arm64: a machine has one of
// them, so that what each must give stands here. The arguments are ordinary numbers whose results
// are normal.
func TestSameBitsOnEveryArchitecture(t *testing.T) {
	const n = 4099
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i-n/2) * 0.0411
	}
	positive := make([]float32, n)
	for i := range positive {
		positive[i] = float32(i+1) * 0.173
	}
	for _, c := range []struct {
		name string
		x    []float32
		f    func(dst, x []float32)
		want uint64
	}{
		{"Exp", x, Exp, 0x49b543362e2258ef},
		{"Log", positive, Log, 0xa6303a0b123e6a1e},
		{"Tanh", x, Tanh, 0xc367caea57a50165},
		{"Erf", x, Erf, 0xde22fcd64bd44a61},
		{"Sigmoid", x, Sigmoid, 0x7b6cd88c6074e5ee},
		{"Silu", x, Silu, 0x66508e97c881e14d},
		{"Gelu", x, Gelu, 0xb62ca570932f0316},
		{"GeluTanh", x, GeluTanh, 0xb2c26f70ea4399c4},
		{"Softplus", x, Softplus, 0xaebe723a65810430},
		{"Mish", x, Mish, 0x2b60595ed28831be},
		{"Softmax", x[n/2 : n/2+700], Softmax, 0x30cf1cb87575ed05},
	} {
		atEachLevel(t, func(t *testing.T) {
			if cpuinfo.CurrentPath() == cpuinfo.PathPlain {
				return
			}
			y := make([]float32, len(c.x))
			c.f(y, c.x)
			h := fnv.New64a()
			for _, v := range y {
				b := math.Float32bits(v + 0) // of a zero, the sign is open
				h.Write([]byte{byte(b), byte(b >> 8), byte(b >> 16), byte(b >> 24)})
			}
			if got := h.Sum64(); got != c.want {
				t.Errorf("%s has bits %#x, want %#x", c.name, got, c.want)
			}
		})
	}
}
