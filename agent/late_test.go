package agent

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/internal/wire"
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
		took := l.take(3, c.over)
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

// TestLooksAtLateMemory holds that who waits for memory that the driver has back some time after a
// process's end waits little longer than that, by how long a look takes, and that looks do not take
// a thread's time: at most a third of it, and 300 looks in the longest time.
func TestLooksAtLateMemory(t *testing.T) {
	for _, c := range []struct{ back, look, vain time.Duration }{
		{0, 300 * time.Microsecond, 0},
		{20 * time.Millisecond, 0, 1250 * time.Microsecond},
		{20 * time.Millisecond, 300 * time.Microsecond, 1700 * time.Microsecond},
		{20 * time.Millisecond, time.Millisecond, 3 * time.Millisecond},
		{300 * time.Millisecond, time.Millisecond, 6 * time.Millisecond},
		{latest, 0, 5 * time.Millisecond},
		{latest, 3 * time.Millisecond, 8 * time.Millisecond},
	} {
		var looked time.Duration
		n, at := 0, time.Duration(0)
		for ; at < c.back; n++ { // a look that begins later finds it
			wait := untilLateLook(at+c.look, c.look)
			if wait < lateLook || wait > lateLookMost {
				t.Fatalf("late for %v, a look of %v: %v until the next", at, c.look, wait)
			}
			looked += c.look
			at += c.look + wait
		}
		if vain := at - c.back; vain > c.vain {
			t.Errorf("back after %v, looks of %v: %v in vain, want %v at most", c.back, c.look,
				vain, c.vain)
		}
		if n > 300 || c.look <= lateLookMost/lateLookRest && 3*looked > at+c.look {
			t.Errorf("back after %v: %d looks of %v took %v", c.back, n, c.look, looked)
		}
	}
}

// TestAgeIsOfTheLast holds that one that is late only now is looked after as often as the first
// one was.
func TestAgeIsOfTheLast(t *testing.T) {
	now := time.Now()
	l := &lateness{}
	if age := l.age(now); age != 0 {
		t.Errorf("nobody is late, for %v", age)
	}
	for _, ago := range []time.Duration{time.Second, time.Millisecond} {
		l.members = append(l.members, lateMember{since: now.Add(-ago)})
		if age := l.age(now); age != ago {
			t.Errorf("the last one is late for %v, not %v", age, ago)
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
	meanwhile := func() {}
	a.cfg.Used = func(uint32) (uint64, error) { meanwhile(); return used, nil }
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
	meanwhile = func() {
		d.late.mu.Lock()
		defer d.late.mu.Unlock()
		d.late.members = make([]lateMember, 1)
	}
	look(5)
	meanwhile = func() {}
	lingers("beside a look in which one came to be late", 50, 10)
	d.late.watched = true
	look(5)
	lingers("beside a look while one was late", 50, 10)
	listed = []uint64{100, 60} // it changes whenever the device is asked,
	if n, ok := a.unlisted(d); n != 90 || !ok {
		t.Errorf("%d are not listed, %v, want 90", n, ok)
	}
	listed = []uint64{100, 60, 100, 100} // or for a while
	if n, ok := a.unlisted(d); n != 50 || !ok {
		t.Errorf("once nothing changes %d are not listed, %v, want 50", n, ok)
	}
}

// TestWhatMovesHidesNothing has processes allocate and free while the device is asked what it lacks
// of others: what they had in between is not known, and nobody's memory is taken to be theirs.
func TestWhatMovesHidesNothing(t *testing.T) {
	type held map[uint32]uint64
	for _, c := range []struct {
		name   string
		listed []held
		used   uint64
		least  uint64
	}{
		{"one frees and the other allocates as much", []held{{7: 100, 8: 20}, {7: 20, 8: 100},
			{7: 100, 8: 20}, {7: 20, 8: 100}, {7: 100, 8: 20}}, 50 + 40, 50},
		{"one frees all the time", []held{{7: 100}, {7: 90}, {7: 80}, {7: 70}, {7: 60}}, 50 + 65,
			50},
		{"one comes, another goes", []held{{7: 100}, {8: 100}, {9: 100}, {7: 100}, {8: 100}}, 50,
			50},
		{"at last nothing", []held{{7: 100}, {7: 60}, {7: 30}, {7: 30}, {7: 30}}, 50 + 30, 50},
	} {
		a, n := &Agent{ctx: t.Context()}, 0
		a.cfg.Holds = func(uint32) (map[uint32]uint64, error) { n++; return c.listed[n-1], nil }
		a.cfg.Used = func(uint32) (uint64, error) { return c.used, nil }
		a.cfg.hangs = time.Minute
		d := &device{}
		d.gaugeWith(&a.cfg)
		if got, ok := a.unlisted(d); got < c.least || !ok {
			t.Errorf("%s: %d lack, %v, want %d at least", c.name, got, ok, c.least)
		}
		if c.name == "at last nothing" && n != 4 {
			t.Errorf("%s: asked %d times, want 4", c.name, n)
		}
	}
}

// TestEndedOnesThatAreListed has the management library list processes that have ended, of which
// one lives on in a child, for as long as the driver has their memory: they are late until it has
// not.
func TestEndedOnesThatAreListed(t *testing.T) {
	held := map[uint32]uint64{7: 100, 8: 40, 9: 1000}
	a := &Agent{ctx: t.Context(), jobs: map[wire.Token]*job{}}
	a.cfg.Holds = func(uint32) (map[uint32]uint64, error) { return held, nil }
	a.cfg.Used = func(uint32) (sum uint64, _ error) {
		for _, n := range held {
			sum += n
		}
		return sum, nil
	}
	a.cfg.hangs = time.Minute
	d := &device{}
	d.gaugeWith(&a.cfg)
	for i, pid := range []uint32{7, 8, 9} {
		j, m := counting(pid)
		j.dev = d
		m.s.MemUsedBytes.Store(held[pid])
		switch pid {
		case 7:
			m.late = true
		case 8:
			m.held = &conn{}
		}
		a.jobs[wire.Token{byte(i)}] = j
	}
	if n := a.lingers(d); n != 100 {
		t.Errorf("%d bytes linger while one that has ended is listed with 100", n)
	}
	held = map[uint32]uint64{8: 40, 9: 1000}
	if n := a.lingers(d); n != 0 {
		t.Errorf("%d bytes linger once it is not", n)
	}
}

// TestEndWhileTheDeviceIsAsked has a process end while the device is asked what it lacks of one
// that is late: after it was listed as alive, or in a child that was known to hold its memory.
// Neither counts no more before the device has its memory back.
func TestEndWhileTheDeviceIsAsked(t *testing.T) {
	const late, dying = 7, 8
	for _, c := range []struct {
		what     string
		inChild  bool
		gone     bool     // with its child, and the device has its memory back
		used     uint64   // the late one's is 100, the other's 200
		afterAll bool     // it ends once the device has answered, not within its answer
		want     []uint32 // who counts then
	}{
		{"listed as alive", false, false, 200, true, []uint32{dying}},
		{"in a child", true, false, 200, false, []uint32{late, dying}},
		{"in a child whose memory is back", true, true, 100, false, []uint32{late}},
	} {
		a := &Agent{ctx: t.Context(), jobs: map[wire.Token]*job{}}
		d := &device{late: lateness{watched: true}} // by this test
		var jobs [2]*job
		var members [2]*member
		for i, pid := range []uint32{late, dying} {
			jobs[i], members[i] = counting(pid)
			jobs[i].a, jobs[i].dev = a, d
			members[i].s.MemUsedBytes.Store(uint64(i+1) * 100)
			a.jobs[wire.Token{byte(i)}] = jobs[i]
		}
		end := func() {
			jobs[1].mu.Lock()
			defer jobs[1].mu.Unlock()
			if members[1].held = nil; c.gone {
				jobs[1].members[0] = nil
			} else {
				jobs[1].letGo(members[1])
			}
		}
		listings := 0
		a.cfg.Holds = func(uint32) (map[uint32]uint64, error) {
			if listings++; c.afterAll && listings == 2 {
				end()
			}
			if c.inChild {
				return nil, nil
			}
			return map[uint32]uint64{dying: 200}, nil
		}
		a.cfg.Used = func(uint32) (uint64, error) {
			if !c.afterAll {
				end()
			}
			return c.used, nil
		}
		a.cfg.hangs = time.Minute
		d.gaugeWith(&a.cfg)
		if c.inChild {
			members[1].held = &conn{}
		}
		jobs[0].letGo(members[0])
		a.given(d)
		var got []uint32
		for _, x := range d.late.members {
			got = append(got, x.m.who.PID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v still count, want %v", c.what, got, c.want)
		}
	}
}

// TestFalseFiguresHideNothing has processes of one job end that each say that they hold all that it
// may: together they are late with no more than that, and hide no more of what the device lacks, so
// that another job's process that has ended is still late.
func TestFalseFiguresHideNothing(t *testing.T) {
	const most = 1 << 30
	a := &Agent{ctx: t.Context(), jobs: map[wire.Token]*job{}}
	a.cfg.Holds = func(uint32) (map[uint32]uint64, error) { return nil, nil }
	a.cfg.Used = func(uint32) (uint64, error) { return 2 * most, nil }
	a.cfg.hangs = time.Minute
	liar, _ := counting(7)
	honest, _ := counting(8)
	for what, end := range map[string]func(*member){
		"late":               liar.letGo,
		"in forked children": func(m *member) { m.held = &conn{} },
	} {
		d := &device{}
		d.gaugeWith(&a.cfg)
		d.late.watched = true // by this test
		for i, j := range []*job{liar, honest} {
			j.a, j.dev, j.members[0].late = a, d, false
			a.jobs[wire.Token{byte(i)}] = j
		}
		honest.members[0].s.MemUsedBytes.Store(most)
		honest.letGo(honest.members[0])
		for i := range 3 {
			m := &member{slot: uint32(i), s: new(wire.Slot), process: &person{}}
			liar.members[i] = m
			m.s.MemUsedBytes.Store(1 << 63)
			end(m)
		}
		// Of the two that the device lacks, one is the liar's at most.
		if got := a.given(d); len(got) != 0 && got[0].j == honest {
			t.Errorf("%s: another job's memory is taken for given back", what)
		}
	}
}

// TestQuestionsAreBundled has a process ask what it holds ten thousand times in a second: the
// device is asked for it two hundred times, as it says in docs/isolation.md.
func TestQuestionsAreBundled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, m := counting(7)
		calls := 0
		j.a = &Agent{ctx: t.Context()}
		j.a.cfg.Holds = func(uint32) (map[uint32]uint64, error) {
			calls++
			return map[uint32]uint64{7: 77}, nil
		}
		j.a.cfg.hangs = time.Minute
		j.dev = &device{}
		j.dev.gaugeWith(&j.a.cfg)
		for n := range uint32(10_000) {
			j.question(m, n+1)
			time.Sleep(100 * time.Microsecond)
		}
		j.a.work.Wait()
		if calls > 201 || calls < 100 {
			t.Errorf("the device was asked %d times, want two hundred at most and one more", calls)
		}
		if m.s.AnswerSeq.Load() != 10_000 || m.s.MeasuredBytes.Load() != 77 {
			t.Errorf("question %d was answered with %d bytes", m.s.AnswerSeq.Load(),
				m.s.MeasuredBytes.Load())
		}
	})
}
