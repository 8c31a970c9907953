//go:build race

package server

// pools keep not all that is put into them: the race detector has them drop some at random.
const pools = false
