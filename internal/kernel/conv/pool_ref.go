package conv

import "math"

var negInf = float32(math.Inf(-1))

// ReferencePool computes pooling in plain Go, window by window: the definition of what Pool
// computes. It wants PoolParams that NewPool accepts.
func ReferencePool(p PoolParams, x, y []float32) {
	out, err := p.Window.setDefaults()
	if err != nil {
		panic(err)
	}
	if p.Out == [3]int{} {
		p.Out = out
	}
	at := 0
	for plane := range p.Planes {
		src := x[plane*volume(p.In):]
		for z := range p.Out[0] {
			for h := range p.Out[1] {
				for w := range p.Out[2] {
					y[at] = p.referenceWindow(src, [3]int{z, h, w})
					at++
				}
			}
		}
	}
}

// referenceWindow reduces one window.
func (p *PoolParams) referenceWindow(src []float32, pos [3]int) float32 {
	largest, sum, n := negInf, 0.0, 0
	for tap := range volume(p.Kernel) {
		if p.padsAt(tap, pos) {
			n++
		}
		at, ok := p.tapAt(tap, pos)
		if !ok {
			continue
		}
		largest = max(largest, src[at])
		sum += float64(src[at])
		if !p.CountPad {
			n++
		}
	}
	if p.Kind == MaxPool {
		return largest
	}
	return float32(sum / float64(n))
}

// padsAt reports whether a tap counts because it lies in the image or its pads, which only CountPad
// asks.
func (p *PoolParams) padsAt(tap int, pos [3]int) bool {
	t := [3]int{tap / p.Kernel[2] / p.Kernel[1], tap / p.Kernel[2] % p.Kernel[1], tap % p.Kernel[2]}
	for i := range 3 {
		if pos[i]*p.Stride[i]+t[i]*p.Dilate[i] >= p.In[i]+p.PadLo[i]+p.PadHi[i] {
			return false
		}
	}
	return p.CountPad
}

// reduceGo adds src to dst, or takes the larger of each pair, element by element.
func reduceGo(kind PoolKind, dst, src []float32) {
	src = src[:len(dst)]
	if kind == AveragePool {
		for i, v := range src {
			dst[i] += v
		}
		return
	}
	for i, v := range src {
		dst[i] = max(dst[i], v)
	}
}
