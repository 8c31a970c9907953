//go:build !race

package policy_test

const (
	runs      = 500 // of any policy in turn, each in a random scenario
	cases     = 100 // random scenarios of each test; with WEIR_LONG 200
	shareTime = 8   // seconds simulated for a share
)
