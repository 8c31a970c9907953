package wire

import "time"

// Intervals that both sides hold to.
const (
	// Beat is how often the agent writes agent_beat_ns.
	Beat = 100 * time.Millisecond
	// Dead is the age of the beat from which an agent whose socket is closed is dead: the gate then
	// counts as open, while the memory cap holds.
	Dead = time.Second
	// Hung is the age of the beat from which an agent whose socket is open is taken for dead too,
	// until it beats again: it may be stopped, and programs wait for it no longer than this.
	Hung = 3 * time.Second
	// Idle is how long nothing has been in flight when a process says so.
	Idle = 300 * time.Microsecond
	// Reconnect is how often a process tries to rejoin.
	Reconnect = 200 * time.Millisecond
)

// Classes as written in pages and messages: the numbers of share.Class.
const (
	ClassStandard      = 0
	ClassLatency       = 1
	ClassOpportunistic = 2
)
