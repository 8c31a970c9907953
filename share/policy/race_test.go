//go:build race

package policy_test

// The policies start no goroutine: the race detector only has to see them run.
const (
	runs      = 40 // of any policy in turn, each in a random scenario
	cases     = 10
	shareTime = 5
)
