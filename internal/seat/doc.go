// Package seat ties a job of the broker to the engine: it is where the two columns of weir meet,
// the same for a program's own models (weir.Host) and for those of a scenario.
//
// Meet first: [Seat], which turns a job's lease into the gate of an iteration; [Weights] and
// [Arenas], the memory that the broker grants the job; [Device], a machine as a broker shares it;
// [Forecast], what a plan's iterations are expected to take; and [Commons], weights that several
// jobs have together.
//
// Concurrency: one goroutine at a time uses a Seat, since a job has one lease; which one may change
// between two uses, once Release or Keep has returned. Quotas are safe for concurrent use.
//
// What it refuses: memory beyond a job's cap, with both numbers ([core.ErrOverCap]); beside a
// device whose memory the host cannot address, the same cap also bounds what the job holds of the
// host's memory, counted by itself.
package seat
