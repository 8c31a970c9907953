package device

import "context"

// Quota grants device memory to one job, exact to the byte. Both methods are safe for concurrent
// use.
type Quota interface {
	// Reserve grants bytes or fails with an error that names the job, what it wants and its cap.
	Reserve(bytes int64) error
	// Release gives reserved bytes back.
	Release(bytes int64)
}

// Meter is what a [Quota] of weights may be, too: it counts what is moved between the host and the
// device for its job, and may hold that back.
type Meter interface {
	// Transfer is called before so many bytes are moved and returns once they may be, or with an
	// error that names the job, or the context's: then they are not moved. It is safe for
	// concurrent use.
	Transfer(ctx context.Context, bytes int64) error
}
