package conv

import (
	"slices"

	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/internal/makespan"
)

// A convolution of 3 x 3 without strides is computed in tiles of 4 x 4 outputs. A tile sees 6 x 6
// inputs d. The tile and the kernel g are transformed into 36 frequencies, each of which is one
// number for a channel; the sum over channels is then a product of matrices for each frequency.
// That takes 36 multiplications where the definition has 144:
//
//	Y = A' [ Σ (G g G') ∘ (B' d B) ] A
//
// (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016, F(4x4, 3x3)). A NaN
// or an infinity in the input reaches all outputs of the tiles that see it.
//
// A rounding is off by u = 2^-24 of its result at most. An element goes through one of the weights,
// which are transformed in float64, two in either line of the input's transform, three in either of
// the output's, and the n of a sum over the channels in package gemm. So an output is off by at
// most
//
//	γ · |A'| [ Σ (|G||g||G'|) ∘ (|B'||d||B|) ] |A|,  γ = (n+11)u / (1 - (n+11)u)
//
// (Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., 3.1), which is far more than
// errors come to: they have either sign. Errors of sums over C channels of terms of root mean
// square σ come to εσC/√2, for some ε, and the definition's, over 9C, to 9 times that. Independent
// numbers of equal size give a frequency (i, j) terms of |G_i||G_j||B'_i||B'_j|σ, with the norms of
// rows, and output (k, l) takes A'_ki A'_lj times its error. The root of the sum of their squares
// is √(a_k a_l) times εσC/√2, where
//
//	a_k = Σ_i A'_ki² |G_i|² |B'_i|² = 9.0, 8.6, 17.3 and 94.3
//
// so that places of a tile have 0.95 to 10.5 times the definition's errors, and all of them
// together (Σ a_k / 4) / 9 = 3.6 times; with few channels, roundings of the transforms make that up
// to √(1 + 22/C) times as much. (Barabasz, Anderson, Soodhalter and Gregg, "Error Analysis and
// Improving the Accuracy of Winograd Convolution for Deep Neural Networks", 2020, derive the same
// kind of bound.)

const (
	tileOut     = 4  // outputs of a tile along an axis
	tileIn      = 6  // inputs of a tile along an axis, and frequencies
	frequencies = 36 // numbers of a transformed tile
	lanes       = 32 // tiles that are transformed together, a panel of the products
	halfLanes   = lanes / 2
	// floats from one row of a tile to the next at most, with room for a vector too many
	tilesPitch = lanes + halfLanes
	stagedRow  = tileOut * lanes          // outputs of a panel in a row, of one channel
	stagedLen  = tileOut * stagedRow      // and all of them
	tilesLen   = frequencies * tilesPitch // inputs of a panel, of one channel
	mostRows   = tileIn * (lanes + 1)

	// transformedWeights bounds the weights of a frequency, so that those of all, four times the
	// model's, take 36 MiB at most.
	transformedWeights = 512 * 512
	// chunkWork is about the multiply-adds of a chunk, and chunkRows the output channels that make
	// up for transforming the inputs of a chunk once more.
	chunkWork = 6 << 20
	chunkRows = 140
	// fewChunks is the number of chunks from which the last one matters little to workers that
	// claim them.
	fewChunks = 16
	// leastBlock is about the output channels that a block has at least where they are cut into
	// more of them for the workers' sake.
	leastBlock = 28
	// linePad is added between the frequencies, which would all fall into the same lines of a cache
	// at a power of two.
	linePad = 16
)

// Cycles by which the tiled and the direct way are compared: inCycles and outCycles for
// transforming a vector of tiles of one channel. A multiply-add of vectors takes one. Weights
// beyond a cache arrive at weightBytes a cycle.
const (
	inCycles    = 350
	outCycles   = 300
	nearBytes   = 1 << 20
	weightBytes = 10
	// paysBelow is the part of the time of the direct way that the transforms must stay under.
	paysBelow = 0.8
)

// partRows is about the output channels, at most, that are multiplied and transformed at a time, so
// that they stay in a cache. With AVX2, whose tiles have few rows, it takes less time to have more
// of them in a further cache than to read the transformed inputs once more for each part.
func partRows(v level) int {
	if v == levelAVX2 {
		return 84
	}
	return 28
}

// packCycles is what packing a kernel takes.
func packCycles(v level) float64 {
	if v == levelAVX512 {
		return 40
	}
	return 400
}

// winograd is the plan of a convolution by tiles.
type winograd struct {
	level      level
	width      int // lanes of a panel of the products
	panelStep  int // floats from one panel of a frequency to the next
	pitch      int // floats from one row of a tile to the next
	rows, cols int // of tiles of an image
	tiles      int
	panels     int // of an image
	part       int // output channels that are multiplied at a time
	block      int // output channels of a chunk, a multiple of the rows of a tile
	blocks     int
	stepIn     int // floats from one frequency to the next
	stepOut    int
	products   []winogradProduct
}

// winogradProduct computes all frequencies of a part of so many output channels, of whole panels of
// tiles and of the last one.
type winogradProduct struct {
	rows        int
	whole, last *gemm.Product
}

// tileRow is one row of input under up to 16 tiles of one row of tiles. The assembly reads this
// struct.
type tileRow struct {
	at    int    // offset in a channel of the first column
	to    int    // where it goes in the tiles
	near  uint64 // which of 64 columns lie in the image
	far   uint64 // the same, four columns on
	lanes uint64 // which tiles there are
	// the columns that the tiles see before those in the image, and how many those are
	lead, n int
}

// transformable reports whether tiles can compute the convolution. Weights that are computed must
// be turned, so that it is a gradient: rounding errors of forward results change the signs of some
// activations, and all that follows them, where those of gradients stay what they are.
func (p *Params) transformable() bool {
	one := [3]int{1, 1, 1}
	return hasWinograd(currentLevel()) && (p.Reused || p.Turned) && p.Format == gemm.F32 &&
		p.Group == 1 &&
		p.trivial(0) && p.Kernel == [3]int{1, 3, 3} && p.Stride == one &&
		p.Dilate[1] == 1 && p.Dilate[2] == 1 && p.N > 0
}

// transforms reports whether tiles are faster than the direct way.
func (p *Params) transforms(out [3]int) bool {
	if !p.transformable() || p.C*p.M > transformedWeights {
		return false
	}
	w := p.cut(out)
	c, m, n := float64(p.C), float64(p.M), float64(p.N)
	cycles := n * float64(halves(w.tiles)) * (frequencies*c*m + inCycles*c*float64(w.blocks) +
		outCycles*m)
	if bytes := frequencies * 4 * c * m; bytes > nearBytes {
		cycles += n * float64(w.panels) * bytes / weightBytes
	}
	if !p.Reused {
		cycles += packCycles(w.level) * c * m
	}
	direct := n * float64(halves(volume(out))) * 9 * c * m
	return cycles < paysBelow*direct
}

// Taken returns the operations of the products in transformed tiles, two per multiply-add, without
// those of the transforms; 0 where the convolution is not computed in tiles.
func (o *Convolution) Taken() int64 {
	if o.kind != kindWinograd {
		return 0
	}
	p := &o.p
	return 2 * frequencies * int64(p.N) * int64(o.winograd.tiles) * int64(p.C) * int64(p.M)
}

// cut cuts the work into chunks.
func (p *Params) cut(out [3]int) winograd {
	w := winograd{rows: (out[1] + tileOut - 1) / tileOut, cols: (out[2] + tileOut - 1) / tileOut}
	w.tiles = w.rows * w.cols
	w.panels = (w.tiles + lanes - 1) / lanes
	w.level, w.width, w.pitch = currentLevel(), gemm.F32.PanelColumns(), lanes
	if w.level != levelAVX512 { // which stores under masks
		w.pitch = tilesPitch
	}
	w.panelStep = w.width * p.C
	w.stepIn = lanes*p.C + linePad
	most := max(chunkWork/(frequencies*lanes*p.C), chunkRows)
	w.split(p.M, (p.M+most-1)/most)
	w.even(p)
	parts := ceilDiv(w.block, partRows(w.level))
	tile := gemm.F32.PanelRows()
	w.part = ceilDiv(w.block, parts*tile) * tile
	w.stepOut = lanes*w.part + linePad
	return w
}

// split cuts the output channels of a panel into about that many blocks.
func (w *winograd) split(channels, blocks int) {
	tile := gemm.F32.PanelRows()
	w.block = ((channels+blocks-1)/blocks + tile - 1) / tile * tile
	w.blocks = (channels + w.block - 1) / w.block
}

// even cuts the work into more blocks where chunks are so few that workers would wait for the last
// one, provided that this takes less time in all.
func (w *winograd) even(p *Params) {
	start, best := *w, w.time(p)
	tile := gemm.F32.PanelRows()
	least := max(leastBlock/tile, 1) * tile
	for blocks := start.blocks + 1; p.N*start.panels*blocks <= fewChunks &&
		blocks*least <= p.M+least; blocks++ {
		next := start
		next.split(p.M, blocks)
		if t := next.time(p); t < best {
			*w, best = next, t
		}
	}
}

// time is the cycles of one, two and four workers, of all of them.
func (w *winograd) time(p *Params) float64 {
	return makespan.Cores(p.N*w.panels*w.blocks, func(c int) float64 {
		block, panel := c%w.blocks, c/w.blocks%w.panels
		rows := float64(min(w.block, p.M-block*w.block))
		vectors := float64(halves(min(lanes, w.tiles-panel*lanes)))
		return vectors * (inCycles*float64(p.C) + (frequencies*float64(p.C)+outCycles)*rows)
	})
}

// planWinograd plans the products.
func planWinograd(p *Params, out [3]int) (*winograd, error) {
	w := p.cut(out)
	lastBlock := p.M - (w.blocks-1)*w.block
	for _, block := range []int{w.block, lastBlock} {
		for _, rows := range []int{min(w.part, block), block - (block-1)/w.part*w.part} {
			if err := w.plan(p, rows); err != nil {
				return nil, err
			}
		}
	}
	return &w, nil
}

// plan adds the product of so many output channels, if it is not there.
func (w *winograd) plan(p *Params, rows int) (err error) {
	if w.product(rows) != nil {
		return nil
	}
	n := winogradProduct{rows: rows}
	q := gemm.Params{M: rows, Part: true, N: lanes, K: p.C, PackedA: true, PackedB: true,
		Batch:   frequencies,
		StrideA: p.M * p.C, StrideB: w.stepIn, StrideC: w.stepOut, LdC: lanes}
	if n.whole, err = gemm.New(q); err != nil {
		return err
	}
	if q.N = w.tiles - (w.panels-1)*lanes; q.N == lanes {
		n.last = n.whole
	} else if n.last, err = gemm.New(q); err != nil {
		return err
	}
	w.products = append(w.products, n)
	return nil
}

// product returns that of so many output channels, nil when there is none.
func (w *winograd) product(rows int) *winogradProduct {
	for i := range w.products {
		if w.products[i].rows == rows {
			return &w.products[i]
		}
	}
	return nil
}

// scratchLen is the room for the transformed inputs and outputs of a chunk, and for the tiles,
// outputs and residuals of one channel of it.
func (w *winograd) scratchLen(p *Params) int {
	return frequencies*(w.stepIn+w.stepOut) + tilesLen + 2*stagedLen
}

// runWinograd computes one chunk: some channels of one panel of tiles.
func (o *Convolution) runWinograd(c int, args *Args, scratch []float32) {
	p, w := &o.p, o.winograd
	block, panel := c%w.blocks, c/w.blocks
	image, panel := panel/w.panels, panel%w.panels
	first, last := panel*lanes, min((panel+1)*lanes, w.tiles)
	v, scratch := cut(scratch, frequencies*w.stepIn)
	m, scratch := cut(scratch, frequencies*w.stepOut)
	o.transformIn(v, args.X[image*p.C*volume(p.In):], scratch[:tilesLen], first, last)
	s := stage{image: image, first: first, last: last, tiles: scratch[:tilesLen],
		out: scratch[tilesLen:][:stagedLen]}
	if p.Residual {
		s.res = scratch[tilesLen+stagedLen:][:stagedLen]
	}
	var buf [mostRuns]stagedRun // no part of s, which p.Map makes escape
	runs := s.listRuns(w, o.out, buf[:0])
	limit := min((block+1)*w.block, p.M)
	for ch := block * w.block; ch < limit; ch += w.part {
		end := min(ch+w.part, limit)
		product := w.product(end - ch).whole
		if panel == w.panels-1 {
			product = w.product(end - ch).last
		}
		a := gemm.Args{A: args.W[ch*p.C:], B: v, C: m}
		for i := range product.Chunks() {
			product.Run(i, &a, nil)
		}
		for i := ch; i < end; i++ {
			o.transformOut(&s, runs, m[(i-ch)*lanes:], args, i)
		}
	}
}

// transformIn writes B'dB of tiles first to last of all channels of an image: of each frequency C x
// 32, a panel after another.
func (o *Convolution) transformIn(v, x, tiles []float32, first, last int) {
	p, w := &o.p, o.winograd
	var buf [mostRows]tileRow
	rows := w.tileRows(buf[:0], &p.Window, first, last)
	clear(tiles)
	plane := volume(p.In)
	for c := range p.C {
		winogradIn(w, v, c, x[c*plane:][:plane], rows, tiles, halves(last-first))
	}
}

func halves(tiles int) int { return ceilDiv(tiles, halfLanes) }

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// tileRows lists the rows of input under tiles first to last.
func (w *winograd) tileRows(rows []tileRow, win *Window, first, last int) []tileRow {
	for t := first; t < last; {
		ty, tx := t/w.cols, t%w.cols
		n := min(halfLanes, w.cols-tx, last-t)
		x := tx*tileOut - win.PadLo[2]
		r := tileRow{lanes: bitRange(0, n)}
		for i := range tileIn {
			r.to = i*tileIn*w.pitch + t - first
			r.at, r.near, r.far, r.lead, r.n = 0, 0, 0, 0, 0
			if y := ty*tileOut - win.PadLo[1] + i; y >= 0 && y < win.In[1] {
				r.at = y*win.In[2] + x
				r.near, r.far = bitRange(-x, win.In[2]-x), bitRange(-x-4, win.In[2]-x-4)
				if end := min(win.In[2]-x, n*tileOut+tileIn-tileOut); end > max(-x, 0) {
					r.lead = max(-x, 0)
					r.n = end - r.lead
				}
			}
			rows = append(rows, r)
		}
		t += n
	}
	return rows
}

// transformOut finishes one output channel of a panel and moves it where it belongs.
func (o *Convolution) transformOut(s *stage, runs []stagedRun, m []float32, args *Args, ch int) {
	p, w := &o.p, o.winograd
	plane := volume(o.out)
	at := (s.image*p.M + ch) * plane
	if p.Residual {
		s.load(args.Residual[at:][:plane], runs)
	}
	bias := float32(0)
	if p.Bias {
		bias = args.Bias[ch]
	}
	winogradOut(w, s, m, p, bias)
	if p.Map != nil {
		for i := range tileOut {
			row := s.out[i*stagedRow:][:tileOut*(s.last-s.first)]
			p.Map(row, row)
		}
	}
	storeRuns(w.level, args.Y[at:][:plane], s.out, runs)
}

// stage is where the outputs of one panel and one channel are put together: 4 rows of 128, 4
// columns of each tile.
type stage struct {
	image, first, last int
	out, res           []float32
	tiles              []float32 // scratch
}

// stagedRun is outputs that are neighbours on the stage and in a plane of the image. The assembly
// reads this struct.
type stagedRun struct{ stage, plane, n int }

// mostRuns is the number of runs of a panel at most: four of a tile.
const mostRuns = tileOut * lanes

// listRuns appends the runs of the panel: four for neighbouring tiles of one row, fewer at the end
// of the image.
func (s *stage) listRuns(w *winograd, out [3]int, runs []stagedRun) []stagedRun {
	for t := s.first; t < s.last; {
		ty, tx := t/w.cols, t%w.cols
		y, x := ty*tileOut, tx*tileOut
		n := min(w.cols-tx, s.last-t)
		for i := range min(tileOut, out[1]-y) {
			runs = append(runs, stagedRun{i*stagedRow + (t-s.first)*tileOut, (y+i)*out[2] + x,
				min(n*tileOut, out[2]-x)})
		}
		t += n
	}
	return runs
}

// load copies the residuals of the panel from a plane of the image.
func (s *stage) load(plane []float32, runs []stagedRun) {
	for _, r := range runs {
		copy(s.res[r.stage:][:r.n], plane[r.plane:])
	}
}

// packedChannels is how many channels are transformed before they are moved to where they belong,
// which in a power of two of floats fall into the same lines of a cache.
const packedChannels = 16

// kernels is where kernels of 3 x 3 lie: floats from one output channel to the next, from one
// channel, and from one element, 1 or -1.
type kernels struct{ row, channel, tap int }

// packWinograd packs the transformed kernels GgG' of each frequency, of the panel of n output
// channels whose first is given and where w begins.
func (o *Convolution) packWinograd(dst, w []float32, first, n int, transformed []float32) {
	p := &o.p
	at := kernels{9 * p.C, 9, 1}
	if p.Turned {
		at = kernels{9, 9 * p.M, -1}
	}
	for c := 0; c < p.C; c += packedChannels {
		channels := min(packedChannels, p.C-c)
		winogradWeights(o.winograd.level, transformed, w[c*at.channel:], n, channels, at)
		for f := range frequencies {
			copy(dst[(f*p.M+first)*p.C+c*n:][:n*channels],
				transformed[f*n*packedChannels:][:n*channels])
		}
	}
}

// winogradWeightsGo writes GgG' of the kernels of n output channels and so many channels: of each
// frequency packedChannels x n.
func winogradWeightsGo(dst, w []float32, n, channels int, at kernels) {
	for k := range n * channels {
		var u [frequencies]float64
		var g [9]float32
		from := w[k%n*at.row+k/n*at.channel:][:9]
		copy(g[:], from)
		if at.tap < 0 {
			slices.Reverse(g[:])
		}
		transformKernel(&u, g[:])
		for f, v := range u {
			dst[f*n*packedChannels+k] = float32(v)
		}
	}
}

// transformKernel computes GgG'.
func transformKernel(u *[frequencies]float64, g []float32) {
	_ = g[8]
	var half [3][tileIn]float64 // the columns of Gg
	for x := range 3 {
		transformLine(&half[x], float64(g[x]), float64(g[3+x]), float64(g[6+x]))
	}
	for i := range tileIn {
		transformLine((*[tileIn]float64)(u[i*tileIn:]), half[0][i], half[1][i], half[2][i])
	}
}

// transformLine computes G times (a, b, c), where G has rows (1/4 0 0), (-1/6 ∓1/6 -1/6), (1/24
// ±1/12 1/6) and (0 0 1).
func transformLine(t *[tileIn]float64, a, b, c float64) {
	t[0] = a / 4
	even, odd := -(a+c)*(1.0/6), b*(1.0/6)
	t[1], t[2] = even-odd, even+odd
	even, odd = a*(1.0/24)+c*(1.0/6), b*(1.0/12)
	t[3], t[4] = even+odd, even-odd
	t[5] = c
}
