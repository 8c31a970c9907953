//go:build !race

package server

// pools keep what is put into them.
const pools = true
