//go:build !linux

package cpu

import "runtime"

// yieldThread lets other goroutines run.
func yieldThread() { runtime.Gosched() }
