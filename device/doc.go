// Package device says what a device is to the rest of weir: memory that can be held, units that
// compute, and a [Gate] through which running work asks for time on it.
//
// The types to meet first are [Device], which hands out [Buffer]s and describes itself with an
// [Info], and [Gate], which a broker implements and an iteration consults between operators and
// between the chunks of a parallel loop.
//
// Everything declared here is safe for concurrent use unless its comment says otherwise. The
// package holds no implementation of a device: those live in sub-packages, one per kind. It decides
// nothing either: who may hold memory or time is the business of whoever implements Gate and sets a
// device's limits.
package device
