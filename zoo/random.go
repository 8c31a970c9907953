package zoo

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/weirgpu/weir/tensor"
)

// distribution is what the elements of a weight are drawn from. Where compilers for some platforms
// would fuse a product and a sum, a conversion to float64 keeps them apart, so that the bits are
// the same everywhere (Go specification, "Floating-point operators").
type distribution struct {
	bell  bool
	scale float64 // of the bell: standard deviation; of the flat: width
	start float64 // of the flat: lower end
}

// normal is bell-shaped with mean 0: the sum of four uniform 16-bit integers (Irwin-Hall), which
// needs no function that platforms compute differently. Its tails end at 3.5 standard deviations.
func normal(std float64) distribution { return distribution{bell: true, scale: std} }

// uniform is flat from lo to hi.
func uniform(lo, hi float64) distribution {
	return distribution{scale: float64(hi) - float64(lo), start: lo}
}

// bellMean and bellVariance are those of the sum of four uniform integers below 1<<16.
const (
	bellMean     = 4 * (1<<16 - 1) / 2
	bellVariance = 4 * (1<<32 - 1) / 12.0
)

// draw fills dst from the stream.
func (d distribution) draw(dst []float32, r *rand.PCG) {
	if !d.bell {
		for i := range dst {
			u := float64(r.Uint64()>>11) / (1 << 53)
			dst[i] = float32(d.start + float64(u*d.scale))
		}
		return
	}
	unit := d.scale / math.Sqrt(bellVariance)
	for i := range dst {
		w := r.Uint64()
		sum := int64(w&0xffff + w>>16&0xffff + w>>32&0xffff + w>>48)
		dst[i] = float32(float64(sum-bellMean) * unit)
	}
}

// weight is a tensor that waits for its elements.
type weight struct {
	name string
	t    *tensor.Tensor
	from distribution
}

// blockLen is how many elements one stream fills: a weight is filled by as many goroutines as it
// has blocks.
const blockLen = 1 << 16

// stream returns the random numbers of one block, independent of all others.
func stream(seed uint64, name string, block int) *rand.PCG {
	h := fnv.New64a()
	var key [8]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	h.Write(key[:])
	h.Write([]byte(name))
	const golden = 0x9e3779b97f4a7c15 // 2^64 / golden ratio spreads small integers over all bits
	return rand.NewPCG(h.Sum64(), uint64(block+1)*golden)
}

// maxParameters bounds one network: 16 GiB of weights.
const maxParameters = 1 << 32

// fillAll allocates the weights and draws their elements.
func (e *export) fillAll() error {
	var total int64
	for _, w := range e.weights {
		total += int64(w.t.Len())
	}
	if total > maxParameters {
		return fmt.Errorf("zoo: %s: %w: %d parameters, limit %d: lower Hidden, Width or Layers",
			e.g.Name, ErrOption, total, int64(maxParameters))
	}
	e.draw(e.allocate())
	return nil
}

// drawJob is one block of a tensor's elements.
type drawJob struct {
	w     weight
	block int
}

// allocate makes the weights and lists their blocks.
func (e *export) allocate() (jobs []drawJob) {
	for _, w := range e.weights {
		n := w.t.Len()
		w.t.Data = tensor.Bytes(make([]float32, n))
		for i := 0; i*blockLen < n; i++ {
			jobs = append(jobs, drawJob{w, i})
		}
	}
	return jobs
}

// draw draws the elements of blocks on all cores.
func (e *export) draw(jobs []drawJob) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(jobs)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(jobs)); i = next.Add(1) - 1 {
				j := jobs[i]
				all := tensor.As[float32](j.w.t)
				part := all[j.block*blockLen : min(len(all), (j.block+1)*blockLen)]
				j.w.from.draw(part, stream(e.seed, j.w.name, j.block))
			}
		})
	}
	wg.Wait()
}
