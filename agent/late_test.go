package agent

import (
	"slices"
	"testing"
	"time"

	"github.com/weirgpu/weir/share/wire"
)

// counting is a job with one process, which has this number.
func counting(pid uint32) (*job, *member) {
	j := &job{}
	j.terms.MemCap = 1 << 30
	m := &member{s: new(wire.Slot), process: &person{ended: make(chan struct{})}}
	m.who.PID = pid
	j.members[0] = m
	return j, m
}

// TestWhatMovesIsNotFound has a process allocate or free while the device is asked: what it counted
// before or after, whichever is more, it counts itself.
func TestWhatMovesIsNotFound(t *testing.T) {
	for _, c := range []struct{ before, after uint64 }{{100, 50}, {50, 100}} {
		_, m := counting(7)
		m.counted = c.before
		m.s.MemUsedBytes.Store(c.after)
		m.note(120)
		m.note(120)
		if got := m.s.FoundBytes.Load(); got != 20 {
			t.Errorf("counted %d, then %d, of 120: %d found, want 20", c.before, c.after, got)
		}
	}
}

// TestFoundAnewTakesTwoLooks has the device list a process, then not, and then again: what is found
// then may be what moves, as at first.
func TestFoundAnewTakesTwoLooks(t *testing.T) {
	j, m := counting(7)
	for i, c := range []struct{ held, found uint64 }{{120, 0}, {120, 120}, {0, 0}, {120, 0},
		{120, 120}} {
		held := map[uint32]uint64{7: c.held}
		if c.held == 0 {
			held = nil
		}
		j.measured(held)
		if got := m.s.FoundBytes.Load(); got != c.found {
			t.Errorf("look %d: %d bytes found, want %d", i, got, c.found)
		}
	}
}

// TestLateOnce has a process that has ended let go of again, as its socket is closed after: it is
// late once.
func TestLateOnce(t *testing.T) {
	j, m := counting(7)
	j.a, j.dev = &Agent{}, &device{}
	j.a.cfg.Used = func(uint32) (uint64, error) { return 0, nil }
	j.dev.late.watched = true // by this test
	m.s.MemUsedBytes.Store(100)
	for range 2 {
		j.letGo(m)
	}
	if got := j.dev.late.members; len(got) != 1 || got[0].m != m || got[0].bytes != 100 {
		t.Errorf("late: %+v", got)
	}
}

// TestWhoIsNotMeasured holds that nothing is found of a process that is outside of the agent's pid
// namespace, that has ended, or that has lost its slot.
func TestWhoIsNotMeasured(t *testing.T) {
	held := map[uint32]uint64{0: 77, 7: 77}
	j, m := counting(0)
	for range 2 {
		j.measured(held)
	}
	j.tell(m, 5, held)
	if m.s.FoundBytes.Load() != 0 || m.s.MeasuredBytes.Load() != wire.NotMeasured ||
		m.s.AnswerSeq.Load() != 5 {
		t.Errorf("of one without a number %d bytes are found, %d measured",
			m.s.FoundBytes.Load(), m.s.MeasuredBytes.Load())
	}
	for what, end := range map[string]func(*member){
		"late":           func(m *member) { m.late = true },
		"in its child":   func(m *member) { m.held = &conn{} },
		"not known long": func(m *member) { m.process.(*person).die() },
	} {
		j, m := counting(7)
		end(m)
		for range 2 {
			j.measured(held)
		}
		if got := m.s.FoundBytes.Load(); got != 0 {
			t.Errorf("of one that has ended, %s, %d bytes are found", what, got)
		}
	}
	j, m = counting(7)
	j.members[0] = nil
	if j.tell(m, 5, held); m.s.AnswerSeq.Load() != 0 {
		t.Error("a slot that is another's was written to")
	}
}

// TestLateOnesGoInTurn holds that of those that have ended, the first ones go as far as what the
// device lacks is less than the others had, and none stays for longer than the longest time.
func TestLateOnesGoInTurn(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		over uint64
		old  bool
		left []uint64
	}{
		{601, false, []uint64{100, 200, 300}}, {600, false, []uint64{100, 200, 300}},
		{501, false, []uint64{100, 200, 300}}, {500, false, []uint64{200, 300}},
		{301, false, []uint64{200, 300}}, {300, false, []uint64{300}}, {1, false, []uint64{300}},
		{0, false, nil}, {600, true, []uint64{200, 300}},
	} {
		l := &lateness{watched: true}
		for _, bytes := range []uint64{100, 200, 300} {
			since := now.Add(time.Hour) // so that time has no say
			if c.old && bytes == 100 {
				since = now.Add(-latest)
			}
			l.members = append(l.members, lateMember{bytes: bytes, since: since})
		}
		took := l.take(c.over)
		var left []uint64
		for _, x := range l.members {
			left = append(left, x.bytes)
		}
		if !slices.Equal(left, c.left) || len(took)+len(left) != 3 {
			t.Errorf("%d lacking, first one old %v: %v are left, want %v", c.over, c.old, left,
				c.left)
		}
		if rests := l.rests(); rests != (c.left == nil) || l.watched == rests {
			t.Errorf("%d lacking: rests %v, watched %v", c.over, rests, l.watched)
		}
	}
}

// TestWhatIsUsual holds that what lingers is what is beyond the least that was listed with nobody
// at the last looks, and that no look counts while somebody is late.
func TestWhatIsUsual(t *testing.T) {
	var used uint64
	listed := []uint64{100}
	a := &Agent{ctx: t.Context()}
	a.cfg.Holds = func(uint32) (map[uint32]uint64, error) {
		n := listed[0]
		listed = append(listed[1:], n)
		return map[uint32]uint64{7: n}, nil
	}
	a.cfg.Used = func(uint32) (uint64, error) { return used, nil }
	a.cfg.hangs = time.Minute
	d := &device{}
	d.gaugeWith(&a.cfg)
	look := func(unlisted uint64) {
		used = 100 + unlisted
		a.noteUnlisted(d)
	}
	lingers := func(when string, unlisted, want uint64) {
		t.Helper()
		used = 100 + unlisted
		if got := a.lingers(d); got != want {
			t.Errorf("%s: %d of %d linger, want %d", when, got, unlisted, want)
		}
	}
	lingers("before any look", 50, 50)
	look(20)
	for range usually - 1 {
		look(40)
	}
	lingers("beside less once", 50, 30)
	lingers("less than is usual", 10, 0)
	look(40)
	lingers("beside that long ago", 50, 10)
	d.late.members = make([]lateMember, 1)
	look(5)
	lingers("beside a look while one was late", 50, 10)
	listed = []uint64{100, 60} // it changes while the device is asked
	if n, ok := a.unlisted(d); n != 90 || !ok {
		t.Errorf("%d are not listed, %v, want 90", n, ok)
	}
}
