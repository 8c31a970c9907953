//go:build !amd64 || noasm

package conv

func (c *halfCall) run() { c.model() }

func (w *halfWhole) run() { w.model() }

func (f *halfFinish) run() { f.model() }

func spreadPixels(dst, src []uint16, n, c, step, size int) {
	spreadGo(dst, src, n, c, step, size)
}

func joinPlanes16(dst []uint16, planes []float32, plane, c, n int) bool {
	return joinPlanesGo(dst, planes, plane, c, n)
}

func (c *windows16Call) run() { c.model() }

func (t *dotTile) run() { t.model() }

func evenHalves(dst, src []uint16) { evenHalvesGo(dst, src) }
