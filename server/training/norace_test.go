//go:build !race

package training_test

const (
	whole = 150 // the updates of a training, enough for what a test does meanwhile
	each  = 50  // updates after which a checkpoint is kept
	least = 0.9 // the share of those held out that it gets right in the end
)
