package telemetry

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
)

// joined has two requests of an account computed as one execution of three rows, by nodes that take
// so long, of which it is told if it asks. It reports whether it did.
func joined(e *Model, l *Members, err error, nodes ...any) bool {
	a, b := e.of.Begin(), e.of.Begin()
	for rows, q := range map[int]*Request{1: a, 2: b} {
		q.For(e, "ann")
		q.Ask(rows)
		q.Through(l)
		q.Mark(Admitted)
	}
	time.Sleep(time.Second)
	x := e.Execute(3, a, b).Through(l)
	o := x.Observer()
	o.Reached(weir.RunBegun)
	o.Reached(weir.RunPlaced)
	time.Sleep(time.Second)
	o.Reached(weir.RunGranted)
	s, told := o.(weir.StepObserver)
	for i := 0; i < len(nodes); i += 2 {
		time.Sleep(time.Duration(nodes[i+1].(int)) * time.Millisecond)
		if told {
			s.Stepped(nodes[i].(string), "Add", "add")
		}
	}
	o.Reached(weir.RunComputed)
	time.Sleep(time.Second)
	x.End(err)
	a.End(err)
	b.End(err)
	return told
}

// TestMembers: the models of one graph count its requests and executions, each with the part of the
// time that its steps have, and of those inside of another that has theirs too; so long as sizes
// stay, to the nanosecond, though few executions are told of steps. What fails, is refused or has
// an answer that is kept counts for none.
func TestMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{})
		e, m, in, x := r.Model("e", "1", "e"), r.Model("m", "1", "m"), r.Model("in", "2", ""),
			r.Model("x", "1", "x")
		inside := NewMembers()
		inside.Add("x", x, nil)
		l := NewMembers()
		l.Add("m", m, nil)
		l.Add("in", in, inside)
		l.Add("none", nil, nil)
		time.Sleep(time.Hour) // the first moment is not that of which none came
		var last time.Time
		var told []bool
		for range 8 {
			last = time.Now()
			told = append(told, joined(e, l, nil, "m/a", 1, "in/x/mm", 5, "in/y", 1, "m2/z", 8,
				"m/b", 1))
		}
		want := []bool{true, true, false, true, false, false, false, true}
		if !reflect.DeepEqual(told, want) {
			t.Errorf("executions that were told of steps: %v", told)
		}
		joined(e, l, context.Canceled, "m/a", 1000)
		q := r.Begin()
		q.For(e, "ann")
		q.Through(l)
		q.Hit(1, time.Millisecond)
		q.End(nil)
		q = r.Begin()
		q.For(e, "ann")
		q.Ask(1)
		q.Through(l)
		q.End(oip.Faultf(oip.Unavailable, "full"))
		if n := e.Statistics().Requests; n.Success.Count != 17 || n.Fail.Count != 3 {
			t.Errorf("the whole: %+v", n)
		}
		for of, took := range map[*Model]uint64{m: 4, in: 12, x: 10} {
			want := oip.Statistics{Name: of.name, Version: of.version,
				LastInference: uint64(last.UnixMilli()), Inferences: 24, Executions: 8,
				Requests: oip.RequestStatistics{Success: ms(16, took), Queue: ms(16, 0),
					Input: ms(16, 0), Infer: ms(16, took), Output: ms(16, 0)},
				Batches: []oip.BatchStatistics{
					{Size: 3, Input: ms(8, 0), Infer: ms(8, took), Output: ms(8, 0)}}}
			if got := of.Statistics(); !reflect.DeepEqual(got, want) {
				t.Errorf("%s:\n got %+v\nwant %+v", of.name, got, want)
			}
			a := of.account("ann")
			if n := a.outcomes[ok].Load(); n != 16 || a.rows.Load() != 24 ||
				a.time.Counts().Sum != 16*took*1e6 {
				t.Errorf("%s, of the account: %d requests, %d rows, %d ns", of.name, n,
					a.rows.Load(), a.time.Counts().Sum)
			}
			if of.offered.Load() != 0 || of.begun.Load() != 0 {
				t.Errorf("%s: device time of its job is taken for that of rows it did not compute",
					of.name)
			}
		}
	})
}

// TestMembersWithoutSteps: where no step tells of its time, members count requests that took none,
// and the next execution is asked again.
func TestMembersWithoutSteps(t *testing.T) {
	r := New(Options{})
	e, m := r.Model("e", "1", "e"), r.Model("m", "1", "m")
	l := NewMembers()
	l.Add("m", m, nil)
	for i := range 5 {
		x := e.Execute(1).Through(l)
		if _, told := x.Observer().(weir.StepObserver); !told {
			t.Errorf("execution %d is not told of steps", i)
		}
		x.Observer().Reached(weir.RunGranted)
		x.End(nil)
	}
	if s := m.Statistics(); s.Executions != 5 || s.Batches[0].Infer.NS != 0 {
		t.Errorf("%+v", s)
	}
}
