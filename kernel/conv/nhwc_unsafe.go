package conv

import "unsafe"

// fetch says which weights are fetched meanwhile. Their addresses are no pointers, because they may
// move beyond the end, where the garbage collector would take them for other objects; and what has
// moved since is fetched in vain.
func (t *pixelTile) fetch(w []float32) {
	t.ahead, t.end = uintptr(unsafe.Pointer(&w[0])), uintptr(unsafe.Pointer(&w[len(w)-1]))
}
