package vec

import order "encoding/binary"

// FlipBytes copies src to the beginning of dst with the top bit of each byte flipped, which turns
// signed bytes into unsigned ones that are greater by 128, and the other way round.
func FlipBytes(dst, src []byte) {
	dst = dst[:len(src)]
	for len(src) >= 8 {
		order.LittleEndian.PutUint64(dst, order.LittleEndian.Uint64(src)^0x8080808080808080)
		dst, src = dst[8:], src[8:]
	}
	for i, b := range src {
		dst[i] = b ^ 0x80
	}
}

// CopyRows copies rows of cols bytes, lds apart in src, to dst, where they are ldd apart, with the
// top bit of each flipped if so asked (see [FlipBytes]). The slices must not overlap.
func CopyRows(dst []byte, ldd int, src []byte, lds, cols, rows int, flip bool) {
	if rows <= 0 || cols <= 0 {
		return
	}
	_, _ = dst[(rows-1)*ldd+cols-1], src[(rows-1)*lds+cols-1]
	mask := uint32(0)
	if flip {
		mask = 0x80808080
	}
	copyRows(dst, ldd, src, lds, cols, rows, mask)
}

// SumBytes adds up unsigned bytes, of which there are less than 8 million.
func SumBytes(x []byte) (sum int32) {
	const even = 0x00ff00ff00ff00ff
	for len(x) >= 8 {
		// Four lanes of 16 bits hold 128 sums of two bytes.
		var lanes uint64
		for n := 0; n < 128 && len(x) >= 8; n++ {
			w := order.LittleEndian.Uint64(x)
			lanes += w&even + w>>8&even
			x = x[8:]
		}
		for range 4 {
			sum += int32(lanes & 0xffff)
			lanes >>= 16
		}
	}
	for _, b := range x {
		sum += int32(b)
	}
	return sum
}
