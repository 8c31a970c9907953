package vec

import "slices"

// Link is one step of [Chain]. The assembly reads this struct.
type Link struct {
	step                        uint32
	a, lo, hi                   float32
	least, most, inverse, apart float32 // of a grid: see Grid
}

// The steps of a chain; the assembly knows those before stepPlain.
const (
	stepKeep = iota
	stepTimes
	stepAdd
	stepMul
	stepDiv
	stepClip
	stepGrid
	stepPlain // a grid that Grid computes by its definition
	stepSigmoid
)

// KeepLink keeps y for [TimesLink], in place of x.
func KeepLink() Link { return Link{step: stepKeep} }

// TimesLink is y · what is kept: x until there is a [KeepLink].
func TimesLink() Link { return Link{step: stepTimes} }

// AddLink is y + a, as [AddScalar] computes it.
func AddLink(a float32) Link { return Link{step: stepAdd, a: a} }

// MulLink is y · a, as [MulScalar] computes it.
func MulLink(a float32) Link { return Link{step: stepMul, a: a} }

// DivLink is y / a, as [DivScalar] computes it.
func DivLink(a float32) Link { return Link{step: stepDiv, a: a} }

// ClipLink is [Clip] of these bounds.
func ClipLink(lo, hi float32) Link { return Link{step: stepClip, lo: lo, hi: hi} }

// GridLink is [Grid] of this scale and these bounds.
func GridLink(scale, lo, hi float32) Link {
	l := Link{step: stepPlain, a: scale, lo: lo, hi: hi}
	if onFastGrid(scale, lo, hi) {
		l.step = stepGrid
		l.least, l.most, l.inverse, l.apart = gridParts(scale, lo, hi)
	}
	return l
}

// SigmoidLink is [Sigmoid].
func SigmoidLink() Link { return Link{step: stepSigmoid} }

// chainPiece is how many elements go through a chain step by step: they stay in the first cache.
const chainPiece = 1024

// Chain computes the links of each element of x one after another, each as the function that it is
// named after, and writes what comes out to dst, which may be x.
func Chain(dst, x []float32, links []Link) {
	x = x[:len(dst)]
	if len(links) == 1 && !keeps(links[0]) {
		links[0].apply(dst, x, nil)
		return
	}
	n := chainBlocks(dst, x, links)
	dst, x = dst[n:], x[n:]
	var kept [chainPiece]float32
	for len(dst) > 0 {
		n := min(chainPiece, len(dst))
		chainOfPiece(dst[:n], x[:n], kept[:n], links)
		dst, x = dst[n:], x[n:]
	}
}

// chainOfPiece computes the links, of which a TimesLink takes what is kept.
func chainOfPiece(y, x, kept []float32, links []Link) {
	if first := slices.IndexFunc(links, keeps); first >= 0 && links[first].step == stepTimes {
		copy(kept, x)
	}
	from := x
	for i := range links {
		if links[i].step == stepKeep {
			copy(kept, from)
			continue
		}
		links[i].apply(y, from, kept)
		from = y
	}
	if &from[0] != &y[0] { // nothing but links that keep
		copy(y, from)
	}
}

// keeps reports whether a link keeps, or takes what is kept.
func keeps(l Link) bool { return l.step == stepKeep || l.step == stepTimes }

// apply computes one link but those that keep.
func (l *Link) apply(y, x, kept []float32) {
	switch l.step {
	case stepTimes:
		Mul(y, x, kept)
	case stepAdd:
		AddScalar(y, x, l.a)
	case stepMul:
		MulScalar(y, x, l.a)
	case stepDiv:
		DivScalar(y, x, l.a)
	case stepClip:
		Clip(y, x, l.lo, l.hi)
	case stepSigmoid:
		Sigmoid(y, x)
	case stepGrid:
		grid(y, x, l.a, l.least, l.most, l.inverse, l.apart)
	default:
		gridPlain(y, x, l.a, l.lo, l.hi)
	}
}
