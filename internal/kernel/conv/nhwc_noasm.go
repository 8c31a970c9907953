//go:build !amd64 || noasm

package conv

const hasNHWC = false

func runPixelTile(int, *pixelTile) { panic("conv: no pixels") }

func runPixelLines(bool, *pixelLines) { panic("conv: no pixels") }

func runPixelThree(int, bool, *pixelThree) { panic("conv: no pixels") }
