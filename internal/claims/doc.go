// Package claims is how the commands of bench/ say what they measured and whether it keeps the
// promise.
//
// Meet first: [Book], which collects a value of each claim in each round, [Noise], which tells how
// much processor time others took meanwhile, and [Command], which prints and ends.
//
// Concurrency: a Book is for one goroutine.
//
// What it refuses: nothing. A claim without a round is one that does not exist.
package claims
