// Package device says what a device is to the rest of weir: memory that jobs can hold, units that
// compute, and a [Gate] through which running work asks for time on them.
//
// The types to meet first are [Device], which hands out [Buffer]s and describes itself with an
// [Info], and [Gate], which a broker implements and an iteration consults between operators and
// between the chunks of a parallel loop.
//
// Everything declared here is safe for concurrent use unless its comment says otherwise. The
// package implements no device: sub-packages do, one for each kind. It decides nothing either:
// whoever implements Gate and sets a device's limits decides who may hold memory or time.
package device
