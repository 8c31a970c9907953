package conv

import "math"

// model defines a call: of each pair of places that behind is added first, as VDPBF16PS does, which
// takes denormal numbers for zero.
func (t *dotTile) model() {
	half := func(x uint16) float32 { return math.Float32frombits(uint32(x) << 16) }
	for i := range t.tiles * dotRows {
		for j, at := range t.offs {
			var lanes [dotStep / 2]float32
			a, b := t.a[i*t.lda:][:t.steps*dotStep], t.b[at:]
			for k := 0; k < len(a); k += 2 {
				lane := &lanes[k/2%len(lanes)]
				*lane += half(a[k+1]) * half(b[k+1])
				*lane += half(a[k]) * half(b[k])
			}
			t.c[i*t.ldc+j] += dotSum(&lanes)
		}
	}
}

// dotSum adds up lanes: of each quarter those two apart first, then quarters two apart.
func dotSum(x *[dotStep / 2]float32) float32 {
	var q [4]float32
	for i := range q {
		q[i] = x[4*i] + x[4*i+2] + (x[4*i+1] + x[4*i+3])
	}
	return q[0] + q[2] + (q[1] + q[3])
}

// evenHalvesGo copies every other element of src, from the first on, to dst.
func evenHalvesGo(dst, src []uint16) {
	for i := range dst {
		dst[i] = src[2*i]
	}
}
