package roofline

import (
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/internal/kernel/vec"
)

// A calibration product has few rows and columns and a long K, packed operands of some 60 KiB each:
// they stay in the second level of every cache of today, and the panel that is read again and again
// in the first.
const (
	productRows  = 56
	productCols  = 64
	productWords = 256
)

var formats = []struct {
	name   Format
	kernel gemm.Format
}{{FP32, gemm.F32}, {BF16, gemm.BF16}, {Int8, gemm.U8S8}}

// peaks measures the matrix products.
func (b bench) peaks(m *Machine) error {
	for _, p := range formats {
		if !p.kernel.Fast() {
			continue
		}
		parts := make([]*product, b.pool.Threads())
		for i := range parts {
			var err error
			if parts[i], err = newProduct(p.kernel); err != nil {
				return err
			}
		}
		ns, err := b.fastest(func(part int) { parts[part].run() })
		if err != nil {
			return err
		}
		m.Peak[p.name] = float64(parts[0].op.FLOP()) * float64(len(parts)) / ns
	}
	return b.registers(m)
}

// registers raises the peaks to those of multiply-adds between registers, which products come close
// to where loading operands takes no turns of theirs: of single precision, and of what is computed
// on tiles.
func (b bench) registers(m *Machine) error {
	for _, p := range formats {
		run := func() int64 { return gemm.RunTilesPeak(p.kernel, tileRounds) }
		if p.kernel == gemm.F32 {
			run = func() int64 { return gemm.RunPeak(cpuinfo.Current(), peakRounds) }
		}
		flop := run()
		if flop == 0 {
			continue
		}
		ns, err := b.fastest(func(int) { run() })
		if err != nil {
			return err
		}
		m.Peak[p.name] = max(m.Peak[p.name], float64(flop)*float64(b.pool.Threads())/ns)
	}
	return nil
}

// product is one matrix product and what it reads and writes.
type product struct {
	op      *gemm.Product
	args    gemm.Args
	scratch []float32
}

func newProduct(p gemm.Format) (*product, error) {
	integers := p == gemm.U8S8 || p == gemm.S8U8
	op, err := gemm.New(
		gemm.Params{
			M:       productRows,
			N:       productCols,
			K:       productWords,
			Format:  p,
			PackedA: true,
			PackedB: true,
			ToStore: integers,
		},
	)
	if err != nil {
		return nil, err
	}
	x := &product{op: op, scratch: make([]float32, op.ScratchLen())}
	x.args.A = make([]float32, p.PackedALen(productRows, productWords))
	x.args.B = make([]float32, p.PackedBLen(productWords, productCols))
	if integers {
		x.args.Store = func([]float32, int, int, int, int, int, int) {}
	} else {
		x.args.C = make([]float32, productRows*productCols)
	}
	return x, nil
}

func (x *product) run() {
	for c := range x.op.Chunks() {
		x.op.Run(c, &x.args, x.scratch)
	}
}

// workingSets are the bytes of each thread that are read again and again: far inside the second
// level of caches, and steps up to what is larger than the last one of most machines.
var workingSets = []int64{128 << 10, 1 << 20, 8 << 20, 48 << 20}

// reads measures reading. Threads read parts of one block, which is the last working set of one
// thread: a machine's last cache is shared.
func (b bench) reads(m *Machine) error {
	threads := int64(b.pool.Threads())
	block := make([]float32, max(workingSets[len(workingSets)-1], workingSets[0]*threads)/4)
	vec.Fill(block, 1)
	for i, bytes := range workingSets {
		if i == 0 {
			bytes *= threads
		}
		bytes = min(bytes, int64(len(block))*4)
		part := int(bytes / 4 / threads)
		ns, err := b.fastest(func(i int) { vec.MaxReduce(block[i*part : (i+1)*part]) })
		if err != nil {
			return err
		}
		m.Read = append(m.Read, Rate{bytes, float64(part) * 4 * float64(threads) / ns})
	}
	return nil
}
