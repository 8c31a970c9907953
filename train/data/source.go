package data

import (
	"hash"

	"github.com/weirgpu/weir/tensor"
)

// Source gives one input of a model, or labels, of all samples.
type Source interface {
	// Samples is how many there are; below 0 as many as are wanted.
	Samples() int
	// Fill writes the samples of those numbers, one after another, into a tensor for as many. What
	// is drawn at random follows from the epoch and the sample; an epoch below 0 is that of samples
	// that a model is tried on, as they are. The error is of kind [ErrData].
	Fill(into *tensor.Tensor, rows []int, epoch int) error
	// Digest adds all samples to a digest.
	Digest(h hash.Hash)
}

// per is how many elements of a tensor each of n samples has.
func per(into *tensor.Tensor, n int) int { return into.Len() / max(n, 1) }
