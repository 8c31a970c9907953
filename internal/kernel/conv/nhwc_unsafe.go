package conv

import "unsafe"

// fetch says which weights the kernel prefetches while it computes. Their addresses are integers,
// not pointers, because they may move beyond the end of the weights, where the garbage collector
// would take a pointer for one to another object. Weights that have moved since are prefetched in
// vain.
func (t *pixelTile) fetch(w []float32) {
	t.ahead, t.end = uintptr(unsafe.Pointer(&w[0])), uintptr(unsafe.Pointer(&w[len(w)-1]))
}

// fetch is that of pixelTile.
func (c *tiledCall) fetch(w []float32) {
	c.ahead, c.end = uintptr(unsafe.Pointer(&w[0])), uintptr(unsafe.Pointer(&w[len(w)-1]))
}

// bothBlocks adds up the addresses of the first two blocks of sums, so that the address of one
// tells that of the other. They do not move while a call has them.
func bothBlocks(sums []float32) uintptr {
	return uintptr(unsafe.Pointer(&sums[0])) + uintptr(unsafe.Pointer(&sums[halfRows*halfCols]))
}

// address is that of weights, which kernels count on from, beyond their end too.
func address(w []float32) uintptr { return uintptr(unsafe.Pointer(&w[0])) }

// intFloats are the floats that have the room of an int.
const intFloats = int(unsafe.Sizeof(0) / unsafe.Sizeof(float32(0)))

// asInts views floats, which are aligned as ints are, as ints.
func asInts(x []float32) []int {
	return unsafe.Slice((*int)(unsafe.Pointer(unsafe.SliceData(x))), len(x)/intFloats)
}
