//go:build !race

package policy_test

const (
	cases     = 200 // random scenarios of each test
	shareTime = 8   // seconds simulated for a share
)
