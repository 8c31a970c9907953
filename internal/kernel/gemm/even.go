package gemm

import "github.com/weirgpu/weir/internal/makespan"

// Workers claim chunks until none is left, so with few chunks some wait for the last: three equal
// ones take two workers as long as four would. Such a product is cut anew, by the times that list
// scheduling (Graham, "Bounds for Certain Multiprocessing Anomalies", 1966) takes with two and with
// four workers.
const (
	// fewChunks is the number of chunks from which the last one matters little.
	fewChunks = 16
	// claimWork is the multiply-adds that take as long as claiming a chunk and preparing to compute
	// it, and copyWork as long as copying a float.
	claimWork = 50_000
	copyWork  = 16
)

// even cuts a product of few chunks such that they keep workers equally long. It makes no fewer of
// them: on a machine that others use, too, workers are not equally fast.
func (b *blocking) even(p *Params, v level) {
	if b.chunks > fewChunks {
		return
	}
	start, best := *b, b.time(p, v)
	try := func(c blocking) {
		if c.count(p); c.chunks < start.chunks || c.chunks > 2*fewChunks {
			return
		}
		if t := c.time(p, v); t < best {
			*b, best = c, t
		}
	}
	for parts := 1; parts <= fewChunks; parts++ {
		c := start
		c.mc = split(p.M, ceilDiv(p.M, parts), b.mr)
		if c.mc != start.mc && !start.together {
			try(c)
		}
		c = start
		if c.nc = split(p.N, ceilDiv(p.N, parts), v.nr()); c.nc != start.nc {
			try(c)
		}
		c = start
		if c.perChunk = ceilDiv(p.Batch, parts); c.perChunk < start.perChunk {
			try(c)
		}
	}
}

// count counts the blocks and chunks.
func (b *blocking) count(p *Params) {
	b.mBlocks = ceilDiv(p.M, b.mc)
	b.nBlocks = ceilDiv(p.N, b.nc)
	if b.mBlocks*b.nBlocks > 1 {
		b.perChunk = 1
	}
	b.chunks = b.mBlocks * b.nBlocks * ceilDiv(p.Batch, b.perChunk)
}

// time is the time of one, two and four workers, in multiply-adds of all of them.
func (b *blocking) time(p *Params, v level) float64 {
	costA, costB := b.costs(p)
	speed := v.speed() // memory and other workers gain nothing by it
	return makespan.Cores(b.chunks, func(c int) float64 {
		mi, rest := c%b.mBlocks, c/b.mBlocks
		ni, group := rest%b.nBlocks, rest/b.nBlocks
		i0, i1 := part(p.M, b.mBlocks, b.mr, mi)
		j0, j1 := part(p.N, b.nBlocks, v.nr(), ni)
		rows, cols := float64(i1-i0), float64(j1-j0)
		products := float64(min(b.perChunk, p.Batch-group*b.perChunk))
		computed := max(rows, streamRows*speed) * cols
		copied := copyWork * speed * (rows*costA + cols*costB)
		return claimWork*speed + products*float64(p.K)*(computed+copied)
	})
}
