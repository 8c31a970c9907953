// Package sorting sorts slices of structs outside of hot paths.
//
// Package slices compiles its sorts anew for each type of struct, which is 12 to 28 KB of the
// binary each time (Go 1.26, amd64), and the static binary has a bound. Here one sort serves all.
//
// Meet first: [By].
//
// Concurrency: as in package slices.
//
// What it refuses: nothing; where time counts, or where the elements are pointers, numbers or
// strings, package slices is the better one.
package sorting

import "sort"

// By sorts list so that compare of an element and a later one is never above 0. Elements of which
// it is 0 stay in their order.
func By[E any](list []E, compare func(a, b E) int) {
	sort.SliceStable(list, func(i, j int) bool { return compare(list[i], list[j]) < 0 })
}
