//go:build !race

package policy_test

const (
	runs      = 1000 // of any policy in turn, each in a random scenario
	cases     = 200  // random scenarios of each test
	shareTime = 8    // seconds simulated for a share
)
