// Package clock tells the time to code that must also run in virtual time: policies in simulation,
// leases under test.
//
// The type to meet first is [Clock]. [Real] follows the machine, [Manual] moves only when told to.
// Both are safe for concurrent use and neither allocates when read. A Clock only tells the time: it
// has no timers, so a component that sleeps or waits takes its timers from elsewhere. Wall-clock
// dates are refused: they can jump.
package clock
