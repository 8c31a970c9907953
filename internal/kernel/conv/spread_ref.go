package conv

// deinterleaveGo writes src[0], src[2], ... to even and src[1], src[3], ... to odd, n of each.
func deinterleaveGo(even, odd, src []float32, n int) {
	even, odd, src = even[:n], odd[:n], src[:2*n]
	for i := range even {
		even[i], odd[i] = src[2*i], src[2*i+1]
	}
}

// interleaveGo writes even[0], odd[0], even[1], odd[1], ... to dst.
func interleaveGo(dst, even, odd []float32) {
	odd, dst = odd[:len(even)], dst[:2*len(even)]
	for i, v := range even {
		dst[2*i], dst[2*i+1] = v, odd[i]
	}
}
