package data

import (
	"fmt"
	"hash"
	"math/rand/v2"

	"github.com/weirgpu/weir/tensor"
)

// NoiseKind is a distribution of random numbers.
type NoiseKind string

// The distributions.
const (
	Normal  NoiseKind = "normal"  // of mean 0 and deviation 1
	Uniform NoiseKind = "uniform" // from -1 to before 1
)

// Noise is an input of random float32 numbers, which follow from the seed, the epoch and the
// sample.
type Noise struct {
	Kind NoiseKind
	Seed uint64
}

// Samples implements [Source].
func (n *Noise) Samples() int { return -1 }

// Fill implements [Source].
func (n *Noise) Fill(into *tensor.Tensor, rows []int, epoch int) error {
	const stream = 0x6e6f697365 // apart from those of changes and orders
	if into.DType != tensor.Float32 {
		return fmt.Errorf("%w: noise is float32, the model takes %v", ErrData, into.DType)
	}
	v, k := tensor.As[float32](into), per(into, len(rows))
	for i, row := range rows {
		r := rand.New(rand.NewPCG(n.Seed^stream, sampleOf(epoch, row)))
		for j := range v[i*k : (i+1)*k] {
			if n.Kind == Uniform {
				v[i*k+j] = float32(2*r.Float64() - 1)
			} else {
				v[i*k+j] = float32(r.NormFloat64())
			}
		}
	}
	return nil
}

// Digest implements [Source].
func (n *Noise) Digest(h hash.Hash) { fmt.Fprintf(h, "noise %s %d\n", n.Kind, n.Seed) }
