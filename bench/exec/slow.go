package main

import (
	"runtime"
	"sync/atomic"
	"time"
)

// This file is how the machine is made slow: by threads that compute all the time, as a build has
// them, or by threads ahead of all others that take a part of each processor's time.

// load starts threads that compute all the time.
func load(threads int) {
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + threads)
	for range threads {
		go func() {
			runtime.LockOSThread()
			for {
				calculate()
			}
		}()
	}
}

var computed atomic.Uint64

// calculate computes for a while and returns how much it could in a second.
func calculate() float64 {
	const block, lasts = 1000, 200 * time.Millisecond
	n, x := 0, uint64(1)
	begin := time.Now()
	for ; time.Since(begin) < lasts; n += block {
		for range block {
			x = x*6364136223846793005 + 1442695040888963407 // Knuth's linear congruential generator
		}
	}
	computed.Store(x)
	return float64(n) / time.Since(begin).Seconds()
}
