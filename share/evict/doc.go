// Package evict holds the rules by which jobs are chosen that give memory of a device back when
// others wait for it: one rule a file, each with its source.
//
// Meet first: [Rule], which ranks jobs as they are used; [New], which makes one by name; [Uses],
// which counts how often each was used. The job of the lowest rank gives back first. Package
// share/core asks who may be chosen at all: no job that is within an iteration, and none below what
// it was promised to keep.
//
// A rule is arithmetic on what it is told: it has no clock, no lock and no randomness. It serves
// one device, and must be used by one goroutine at a time. [New] refuses names that it does not
// know.
package evict
