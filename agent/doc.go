// Package agent is the node agent for process jobs: unmodified CUDA programs that a small preloaded
// library meters. It runs once per user, shares each device with a broker under a policy, and
// speaks internal/wire with the programs.
//
// Meet first: [Agent], made by [Start]; [Client], with which weir exec and weir top talk to it; and
// [Snapshot], what it tells of itself. Inside, a job is one job of the broker with one goroutine,
// the state machine of gate.go, that asks for leases and opens and closes the gate in the job's
// page, and any number of processes (attach.go) that come and go through the socket. Who waits for
// whom, and who pays for what, is the broker's to know.
//
// The state of a process is what its slot in the page says. Messages are hints to look there: one
// lost or invented costs time, not correctness. All that a page says can be wrong, so none of it is
// used but as a claim about the job itself: a job that lies about its work loses or wastes its own
// share, within the limits that the broker sets.
//
// Jobs on several devices whose programs wait for each other are a gang (gang.go): one goroutine
// drives their gates, which open and close together.
//
// Memory that the library can move (weir exec --oversubscribe) is moved to the host by a freeze
// (freeze.go), and for others' turns where not all fits (turns.go). Who gives way and for how long
// whose memory has come stays is the broker's to say too.
//
// Programs take turns on a device, whole, unless they are clients of NVIDIA's Multi-Process Service
// (mps.go): then the policy may let them run at once, each process with a percentage of the device
// that is fixed when it begins.
//
// A process's death closes its socket and frees its slot; a job whose controller and processes are
// gone ends and frees all it was promised. An agent that is started again takes up the jobs of the
// one before with the pages that the programs, or weir exec, bring along. Their terms it has from
// a record of its own (record.go) or, where there is none, from weir exec; never from a page.
//
// Concurrency: all methods of Agent and Client may be called from any goroutine. The order of locks
// is the agent's, a job's, then the broker's own.
//
// The package refuses peers of another user, malformed messages, shares that cannot be kept, and a
// second agent on one runtime folder. It works on Linux; elsewhere Start fails with
// wire.ErrUnsupported.
package agent
