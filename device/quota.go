package device

// Quota grants device memory to one job, exact to the byte. Both methods are safe for concurrent
// use.
type Quota interface {
	// Reserve grants bytes or fails with an error that names the job, what it wants and its cap.
	Reserve(bytes int64) error
	// Release gives reserved bytes back.
	Release(bytes int64)
}
