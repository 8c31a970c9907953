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
