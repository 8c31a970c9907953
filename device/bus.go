package device

import "time"

// Bus is the way on which the host's bytes come to a device, one transfer after the other.
type Bus struct {
	// BytesPerS is its bandwidth, above 0.
	BytesPerS float64
	// PerTransfer is what each transfer takes besides.
	PerTransfer time.Duration
}

// Transfer is how long a transfer of so many bytes takes.
func (b Bus) Transfer(bytes int64) time.Duration {
	return b.PerTransfer + time.Duration(float64(bytes)/b.BytesPerS*float64(time.Second))
}

// Small is how many bytes a transfer has at most that waits for no others: drivers write so many
// with the command that has them copied (NVIDIA's CUDA programming guide, "Concurrent Execution
// between Host and Device"), which the engine that copies is not asked for.
const Small = 64 << 10

// Bused is implemented by devices that know how fast the host's bytes come to them.
type Bused interface {
	// Bus describes the way; ok is false when it is not known.
	Bus() (b Bus, ok bool)
}
