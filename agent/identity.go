package agent

import (
	"time"

	"github.com/weirgpu/weir/internal/wire"
)

// identity tells processes apart. The zero value is nobody's.
type identity struct {
	PID   uint32 `json:"pid"`   // in the agent's namespace; 0: it is outside of it
	Start uint64 `json:"start"` // in clock ticks; 0: not known
	// ID is a number that no other process has had since the machine started; 0: not known.
	ID uint64 `json:"id"`
}

func (p peer) identity() identity {
	return identity{PID: p.pid, Start: p.process.start(), ID: p.process.id()}
}

// known reports whether the process can be told apart from all others.
func (a identity) known() bool { return a.ID != 0 || a.PID != 0 && a.Start != 0 }

// is reports whether both are one process, as far as that is known: all processes outside the
// agent's pid namespace have the number 0 there.
func (a identity) is(b identity) bool {
	if a.ID != 0 && b.ID != 0 {
		return a.ID == b.ID
	}
	return a.PID != 0 && a.PID == b.PID && a.Start != 0 && a.Start == b.Start
}

// owner is what a slot says of its process, for the next agent.
func (a identity) owner() (pid uint32, start uint64) {
	if a.PID == 0 {
		return wire.ForeignPID, a.ID
	}
	return a.PID, a.Start
}

// absent is a process that a slot names and nobody can look for: it counts as alive for as long as
// it may take to come back.
type absent struct {
	ident uint64
	until time.Time
}

func (p absent) start() uint64         { return 0 }
func (p absent) id() uint64            { return p.ident }
func (p absent) alive() bool           { return time.Now().Before(p.until) }
func (p absent) watched() bool         { return false }
func (p absent) done() <-chan struct{} { return nil }
func (p absent) stopped() bool         { return false }
func (p absent) forget()               {}

func (p absent) awaitDrain(*wire.Slot, uint32, time.Duration) bool { return false }
