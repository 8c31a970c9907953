//go:build !amd64 && !arm64

package cpu

import "sync/atomic"

var paused atomic.Uint32

// pause spends about as long as n pause instructions of other processors do. The atomic load keeps
// the compiler from removing the loop.
func pause(n uint32) {
	for ; n > 0; n-- {
		_ = paused.Load()
	}
}
