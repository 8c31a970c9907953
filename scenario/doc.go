// Package scenario runs several jobs on one device, alone and together, and reports what each got.
//
// Meet first: [Scenario] is what a person wrote (see [Parse] for the YAML form), [Run] carries it
// out and returns a [Result], whose JSON fields scripts rely on. It joins the two columns of weir:
// the engine runs the models, the broker decides which of them holds the device.
//
// A run has phases: each job alone, all jobs together under each policy asked for, and, for
// comparison, the same jobs left to the operating system, as goroutine pools of one process and as
// processes of their own ([Mode]). [Simulate] gives the same result of a device that need not be
// there, in virtual time, from a model's plan or from described [Work].
//
// Concurrency: Run starts its goroutines and returns when they are done; one run uses the device of
// the process.
//
// What it refuses: unknown keys, wrong types and meaningless values (all faults together, with
// their lines, [ErrScenario]), a scenario one of whose models does not load or compile, and, at
// admission, a job whose plan and request need more than its memory cap, with both numbers. Beside
// a device whose memory the host cannot address, the same cap also bounds what the job holds of the
// host's memory, which is counted by itself. A job that is refused, fails or panics gives its
// memory back at once and touches no other.
package scenario
