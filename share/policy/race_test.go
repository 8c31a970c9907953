//go:build race

package policy_test

// The policies start no goroutine: the race detector only has to see them run.
const (
	cases     = 10
	shareTime = 5
)
