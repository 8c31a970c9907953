// Package training trains models beside those that a server serves, in the gaps that their requests
// leave.
//
// Meet first: [Open], which begins to follow recipes; [Trainings.List] and [State]; and
// [Trainings.Routes], the endpoints.
//
// # Where it runs
//
// A training is a job of the server's host in the opportunistic class: requests take the device
// from it within an operator. Its memory is lent. When a model needs it, or the server ends, the
// training makes the update under way to its end, keeps a checkpoint and gives all back; it goes on
// from there, to the same bits, once there is room, or at the next start, in this process or
// another.
//
// Concurrency: every method may be called by any number of goroutines; each training has a
// goroutine of its own.
//
// What it refuses: recipes that keep no checkpoints, which could not go on; changes of trainings
// that have ended (409), and shares below what they need.
package training
