package telemetry

import (
	"math/bits"
	"strings"
	"sync/atomic"
	"time"
)

// Members are models that are computed inside of another one, as parts of its graph. What is asked
// of that counts for them too, as if each was asked by itself: a request and an execution of as
// many rows, which took the part of the whole's time that its steps take, and waited for nothing.
// How large that part is, executions tell that are told of their steps: the 1st, the 2nd, the 4th,
// the 8th and so on. Of a request that fails nobody knows in which of them it did, and one that is
// refused or has an answer that is kept comes to none: neither counts. A nil *Members is none.
type Members struct {
	list []*member
	runs atomic.Uint64 // executions that began
	all  atomic.Int64  // ns that steps of members took, where they were told of
}

// member is one of Members.
type member struct {
	of     *Model
	prefix string // of the names of its nodes
	inside bool   // of another of them, whose time has its own
	ns     atomic.Int64
}

// NewMembers returns members that are all to be added, before anybody asks.
func NewMembers() *Members { return &Members{} }

// Add adds a model as the part of that name, which names of its nodes begin with, and a slash.
// Those that are computed inside of that, nil for none, are members too.
func (l *Members) Add(part string, m *Model, inside *Members) {
	if m == nil {
		return // nobody counts
	}
	l.list = append(l.list, &member{of: m, prefix: part + "/"})
	if inside == nil {
		return
	}
	for _, x := range inside.list {
		l.list = append(l.list, &member{of: x.of, prefix: part + "/" + x.prefix, inside: true})
	}
}

// look reports, of an execution that begins, whether it is to be told of its steps.
func (l *Members) look() bool {
	return l != nil && (bits.OnesCount64(l.runs.Add(1)) == 1 || l.all.Load() == 0)
}

// stepped says that a node of the whole took so long.
func (l *Members) stepped(node string, took time.Duration) {
	for _, x := range l.list {
		if strings.HasPrefix(node, x.prefix) {
			x.ns.Add(int64(took))
			if !x.inside {
				l.all.Add(int64(took))
			}
		}
	}
}

// each goes through the members with the part of a time that is theirs.
func (l *Members) each(whole time.Duration, count func(m *Model, took time.Duration)) {
	if l == nil {
		return
	}
	all := max(l.all.Load(), 1)
	for _, x := range l.list {
		part := float64(min(x.ns.Load(), all)) / float64(all)
		count(x.of, time.Duration(float64(whole)*part))
	}
}

// ended counts an answered request of an account for the members; computed is how long the whole
// took.
func (l *Members) ended(q *Request, computed, received time.Duration) {
	l.each(computed, func(m *Model, took time.Duration) {
		a := m.account(q.name)
		a.outcomes[ok].Add(1)
		a.rows.Add(uint64(q.rows))
		a.time.Observe(uint64(took))
		m.last.Store(int64(received))
		m.succeeded.add(took)
		m.queue.Observe(0)
		m.compute.Observe(uint64(took))
	})
}

// ran counts an execution for the members.
func (l *Members) ran(rows int, computed time.Duration) {
	l.each(computed, func(m *Model, took time.Duration) { m.ran(rows, 0, took, 0) })
}
