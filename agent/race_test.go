//go:build race

package agent

// slack widens bounds of time where the race detector slows the code.
const slack = 20

// seeds is how many random scenarios are run.
const seeds = 2
