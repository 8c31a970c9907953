package conv

// pairCopy is one call of the kernel that copies what 8 neighbouring columns see under a tap, which
// lie in two runs. The assembly reads this struct.
type pairCopy struct {
	dst, src     *float32
	pitch, plane int // bytes of a row of dst, one for each channel, and of a channel
	n            int // channels, 1 or more
	run          [2]pairRun
}

// pairRun is the columns of one run.
type pairRun struct {
	at   int    // floats to what column 0 would see, which may be outside the image
	load uint64 // which elements from there are seen
}

// pairLanes is the columns of a pairCopy.
const pairLanes = 8

// pairs copies what a tap sees, of n channels from src, into rows of width floats, whole vectors at
// a time. It reports false where columns of one vector lie in more than two runs, or some vectors
// would reach into the next row while that holds more.
func (p *patches) pairs(dst, src []float32, width int, runs []run, t tap, n int) bool {
	vectors := (width + pairLanes - 1) / pairLanes
	if !hasPairCopies(p.level) || p.w.Stride[2] > 2 || vectors > 2 ||
		vectors == 2 && width < 2*pairLanes {
		return false
	}
	var c [2]pairCopy
	if !p.cutPairs(&c, runs, t) {
		return false
	}
	// the last rows may have no room behind them
	whole := max(0, n-(vectors*pairLanes-1)/width)
	if whole > 0 {
		_, _ = dst[(whole-1)*width+vectors*pairLanes-1], src[whole*p.plane-1]
		for v := range vectors {
			c[v].dst, c[v].src, c[v].n = &dst[v*pairLanes], &src[0], whole
			c[v].pitch, c[v].plane = 4*width, 4*p.plane
			runPairCopy(&c[v], p.w.Stride[2])
		}
	}
	if whole < n {
		p.gather(dst[whole*width:], src[whole*p.plane:], width, runs, t, n-whole)
	}
	return true
}

// cutPairs sets the runs of the columns of up to two vectors.
func (p *patches) cutPairs(c *[2]pairCopy, runs []run, t tap) bool {
	var found [2]int
	step := p.w.Stride[2]
	for i := range runs {
		lo, hi, from := runs[i].inside(&p.w, t)
		first, last := runs[i].lane+lo, runs[i].lane+hi
		for v := first / pairLanes; v*pairLanes < last && lo < hi; v++ {
			if found[v] == 2 {
				return false
			}
			at := v * pairLanes
			lanes := bitRange((max(first, at)-at)*step, (min(last, at+pairLanes)-1-at)*step+1)
			c[v].run[found[v]] = pairRun{from + (at-first)*step, lanes}
			found[v]++
		}
	}
	return true
}
