// Package strided copies elements between tensors whose sides are walked by steps of their own.
//
// Meet first: [Steps] places an index space in the elements of a tensor, and [Copy] copies between
// two such places.
//
// Concurrency: pure functions; the caller keeps others away from what is written.
//
// What it refuses: indices outside either tensor and unlike types, before anything is written.
package strided
