//go:build !arm64

package cpu

// lineBytes is the distance from which words that several threads write do not slow each other
// down.
const lineBytes = 64
