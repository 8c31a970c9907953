// Package forest walks ensembles of decision trees: compact nodes in one array, several walks at a
// time so that the memory latency of one hides behind the others.
//
// Meet first: [Model], an ensemble as models have it, [New] which makes a [Forest] of it, and
// [Forest.Scores], which aggregates the weights of the leaves that rows of features lead to.
// [Forest.Pack] and [At] move a forest to memory of the caller.
//
// Comparisons of order are all stored as x <= value: x < v is x <= the next value below v, and the
// others have their branches exchanged. That is exact, NaN included, for which each node says where
// to go.
//
// Concurrency: a filled Forest is read only; any number of goroutines may walk it.
//
// What it refuses: nothing; the caller has checked that indices are in range and that every walk
// ends (ml.ForestOf).
package forest
