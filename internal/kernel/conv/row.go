package conv

// reduceRow does what reduceGo does.
func reduceRow(v level, kind PoolKind, dst, src []float32) {
	var done int
	if kind == MaxPool {
		done = maxRow(v, dst, src)
	} else {
		done = addRow(v, dst, src)
	}
	reduceGo(kind, dst[done:], src[done:])
}

// deinterleave does what deinterleaveGo does.
func deinterleave(v level, even, odd, src []float32, n int) {
	done := splitRow(v, even[:n], odd, src)
	deinterleaveGo(even[done:], odd[done:], src[2*done:], n-done)
}

// interleave does what interleaveGo does.
func interleave(v level, dst, even, odd []float32) {
	done := weaveRow(v, even, odd, dst)
	interleaveGo(dst[2*done:], even[done:], odd[done:])
}
