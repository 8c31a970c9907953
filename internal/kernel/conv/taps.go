package conv

import "math/bits"

// tapCopies is one call of the kernel that copies what neighbouring columns see of the image, for
// images of few channels, where a call for each tap takes longer than the copying. The assembly
// reads this struct.
type tapCopies struct {
	src, dst *float32
	taps     []tapCopy
	plane    int    // bytes from one channel to the next
	pitch    int    // bytes of a row of dst, one for each channel of each tap
	shift    int    // bytes from src to where taps are counted from
	lanes    uint64 // which of 32 elements of the image, or of 64 with a stride of 2, may be read
	store    uint32 // the columns that are written, zero where no element is read
	// with NEON, where there are no masks: bytes from src and dst on that may be touched
	reads, writes int
}

// tapCopy is what column 0 sees under one tap.
type tapCopy struct {
	at   int    // bytes to it, which may be outside the image
	load uint64 // which elements from there lie in the image
	n    int    // channels, 1 or more
}

const (
	// mostTaps is how many taps are listed at a time.
	mostTaps = 32
	// fewChannels are copied under a tap in less time than a call for it takes.
	fewChannels = 32
)

// copiesTaps reports whether what c channels of such strides see is copied by tables of taps, where
// a level can.
func (v level) copiesTaps(stride, c int) bool {
	return stride <= 2 && (c <= fewChannels || !hasMasks(v))
}

// wholeTaps lists the taps for columns that see the image only, of all channels of a pixel.
func (p *patches) wholeTaps() (taps []tapCopy) {
	for _, t := range p.taps {
		taps = append(taps, tapCopy{4 * ((t.z*p.w.In[1]+t.y)*p.w.In[2] + t.x), ^uint64(0), p.c})
	}
	return taps
}

// mostPanels is of how many panels the taps are listed beforehand. Of small images, finding what a
// tap sees takes as long as copying it.
const mostPanels = 8

// list lists the taps for each panel, of all channels of a pixel, of images of few panels that can
// be copied in one stretch.
func (p *patches) list() {
	n := volume(p.out)
	if !p.tables || !hasTapCopies(p.level, p.width) || !p.even || n > mostPanels*p.width {
		return
	}
	for j := 0; j < n; j += p.width {
		var buf [32]run
		var taps []tapCopy
		runs := p.split(&buf, j, min(n, j+p.width))
		for _, t := range p.taps {
			at, lanes := p.lanes(runs, t)
			taps = append(taps, tapCopy{4 * at, uint64(lanes), p.c})
		}
		p.panels = append(p.panels, taps)
	}
}

// copyListed writes the rows of these taps, of all channels, of a panel of width floats.
func (p *patches) copyListed(dst, src []float32, width int, taps []tapCopy) {
	_, _ = dst[len(taps)*p.c*width-1], src[p.c*p.plane-1]
	c := tapCopies{src: &src[0], dst: &dst[0], taps: taps, plane: 4 * p.plane, pitch: 4 * width,
		lanes: ^uint64(0), store: 1<<width - 1, reads: 4 * len(src), writes: 4 * len(dst)}
	runTapCopies(p.level, &c, 1)
}

// copyRuns writes rows k0 to k1 of a panel of width floats.
func (p *patches) copyRuns(dst, src []float32, width int, runs []run, k0, k1 int) {
	c := tapCopies{plane: 4 * p.plane, pitch: 4 * width, store: 1<<width - 1}
	if p.even {
		p.copyRun(c, dst, src, runs, k0, k1)
		return
	}
	for i := range runs {
		if i > 0 {
			c.store = uint32(bitRange(runs[i].lane, runs[i].lane+runs[i].n))
		}
		p.copyRun(c, dst, src, runs[i:][:1], k0, k1)
	}
}

// copyRun writes the columns of runs that lie in one stretch of the image, and zeros to the others
// of c.store.
func (p *patches) copyRun(c tapCopies, dst, src []float32, runs []run, k0, k1 int) {
	width := c.pitch / 4
	_, _ = dst[(k1-k0)*width-1], src[p.c*p.plane-1]
	c.dst, c.src, c.reads, c.writes = &dst[0], &src[0], 4*len(src), 4*len(dst)
	c.shift, c.lanes = 0, ^uint64(0)
	if r := &runs[0]; len(runs) == 1 && k0 == 0 && k1 == p.c*len(p.taps) &&
		r.within(&p.w, p.taps[len(p.taps)-1]) {
		step := p.w.Stride[2]
		c.taps, c.shift = p.whole, 4*((r.z*p.w.In[1]+r.y)*p.w.In[2]+r.x-r.lane*step)
		c.lanes = bitRange(r.lane*step, (r.lane+r.n-1)*step+1)
		runTapCopies(p.level, &c, p.w.Stride[2])
		return
	}
	var buf [mostTaps]tapCopy
	listed := 0
	for k, ch := k0, k0%p.c; k < k1; ch = 0 {
		n := min(p.c-ch, k1-k)
		at, lanes := p.lanes(runs, p.taps[k/p.c])
		load := uint64(lanes)
		if p.w.Stride[2] == 2 && lanes != 0 { // lanes of a stride of 2 are one run's, without gaps
			load = bitRange(2*bits.TrailingZeros32(lanes), 2*bits.Len32(lanes)-1)
		}
		buf[listed] = tapCopy{4 * (ch*p.plane + at), load, n}
		listed++
		if k += n; listed == mostTaps || k == k1 {
			c.taps = buf[:listed]
			runTapCopies(p.level, &c, p.w.Stride[2])
			if k < k1 {
				c.dst, c.writes = &dst[(k-k0)*width], 4*(len(dst)-(k-k0)*width)
			}
			listed = 0
		}
	}
}

// within reports whether all columns of the run see the image under all taps, of which the last
// looks farthest.
func (r *run) within(w *Window, far tap) bool {
	return r.z >= 0 && r.z+far.z < w.In[0] && r.y >= 0 && r.y+far.y < w.In[1] && r.x >= 0 &&
		r.x+(r.n-1)*w.Stride[2]+far.x < w.In[2]
}
