//go:build !linux

package process

import "time"

func sinceStart() time.Duration { return 0 }

func peakRSS() int64 { return 0 }
