package vec

// Interleave makes words of four bytes, one from each of four planes that lie stride bytes apart:
// byte b of dst[i], from the lowest on, is x[b*stride+i], with its top bit flipped if so asked (see
// [FlipBytes]). The planes may overlap.
func Interleave[T Word](dst []T, x []byte, stride int, flip bool) {
	if len(dst) == 0 {
		return
	}
	x = x[:3*stride+len(dst)]
	mask := uint32(0)
	if flip {
		mask = 0x80808080
	}
	interleave(words(dst), x, stride, mask)
}

func interleaveRef(dst []uint32, x []byte, stride int, flip uint32) {
	for i := range dst {
		dst[i] = (uint32(x[i]) | uint32(x[stride+i])<<8 | uint32(x[2*stride+i])<<16 |
			uint32(x[3*stride+i])<<24) ^ flip
	}
}
