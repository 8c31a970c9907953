//go:build !linux

package traffic

import "time"

func nap(d time.Duration) { time.Sleep(d) }
