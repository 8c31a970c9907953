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
// another. One that was paused or stopped goes on once it is told to, also at the next start.
// Samples are read and checkpoints written without the device. Where the disk has no room for a
// checkpoint, a model that waits for the memory waits a few seconds more; what was computed since
// the checkpoint before is lost then.
//
// Concurrency: every method may be called by any number of goroutines; each training has a
// goroutine of its own.
//
// What it refuses: recipes that keep no checkpoints, which could not go on; changes of trainings
// that have ended (409), shares that no job can have, and caps of memory below the least that an
// update can be planned for.
package training
