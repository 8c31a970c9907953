// Package makespan tells how long workers take that claim chunks of work one after another, until
// none is left.
//
// Meet first: [Cores]. It is a pure function. It refuses nothing: costs are the caller's.
package makespan
