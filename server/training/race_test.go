//go:build race

package training_test

// The race detector has an update take ten times as long: these many last as long as those without.
const (
	whole = 60
	each  = 20
	least = 0 // it learns in more
)
