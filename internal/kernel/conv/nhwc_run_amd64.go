//go:build amd64 && !noasm

package conv

// hasNHWC says that runPixelTile and runPixelLines have kernels.
const hasNHWC = true

// runPixelTile computes t in tiles of one of the heights pixelRows.
func runPixelTile(rows int, t *pixelTile) {
	switch rows {
	case 14:
		pixelTile14(t)
	case 8:
		pixelTile8(t)
	case 7:
		pixelTile7(t)
	case 4:
		pixelTile4(t)
	case 2:
		pixelTile2(t)
	default:
		pixelTile1(t)
	}
}

// runPixelLines computes t as a convolution or, if so asked, as a pooling.
func runPixelLines(largest bool, t *pixelLines) {
	if largest {
		maxBytes(t)
		return
	}
	depthwiseBytes(t)
}

// runPixelThree computes t with a stride of 1 or 2, of signed bytes or unsigned ones.
func runPixelThree(stride int, signed bool, t *pixelThree) {
	switch {
	case signed && stride == 1:
		depthwiseThreeSigned1(t)
	case signed:
		depthwiseThreeSigned2(t)
	case stride == 1:
		depthwiseThree1(t)
	default:
		depthwiseThree2(t)
	}
}
