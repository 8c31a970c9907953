package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

// counter adds up what a sequence sends; at its end it adds its number, too.
var counter = written("counter", `graph "counter" {
  opset "" 17
  meta "sequence.corrid" "ID"
  meta "sequence.end" "END"
  meta "sequence.ready" "READY"
  meta "sequence.start" "START"
  meta "sequence.state" "before=after"
  input %x: int32[N,1]
  input %START: bool[N,1]
  input %END: int32[N,1]
  input %READY: float32[N]
  input %ID: int64[1]
  input %before: int32[N,1]
  %first: int32[N,1] = Cast@13 (%START) {to=6}
  %ready: int32[N] = Cast@13 (%READY) {to=6}
  %id: int32[1] = Cast@13 (%ID) {to=6}
  %last: int32[N,1] = Mul@14 (%END, %id)
  %after: int32[N,1] = Add@14 (%x, %before)
  %sum: int32[N,1] = Add@14 (%after, %last)
  %begun: int32[N,1] = Add@14 (%sum, %first)
  %y: int32[N,1] = Mul@14 (%begun, %ready)
  output %y
  output %after
}`)

// count sends a number in a sequence, and returns what it came to.
func count(ctx context.Context, s *Server, x int32, id any, start, end bool) (int32, error) {
	a, err := s.Infer(ctx, "counter", "", &oip.Request{
		Parameters: oip.Parameters{"sequence_id": id, "sequence_start": start, "sequence_end": end},
		Inputs:     []oip.Input{{Name: "x", Tensor: tensor.From([]int32{x}, 1, 1)}}})
	if err != nil {
		return 0, err
	}
	defer a.Close()
	if len(a.Outputs) != 1 {
		return 0, fmt.Errorf("%d outputs", len(a.Outputs))
	}
	return tensor.As[int32](a.Outputs[0].Tensor)[0], nil
}

// TestSequence: the model is told where a request stands, and has what it has returned before; each
// sequence of each account is its own.
func TestSequence(t *testing.T) {
	s := begin(t, Options{}, counter)
	ann := auth.With(t.Context(), &auth.Account{Name: "ann"})
	for _, c := range []struct {
		of         context.Context
		x          int32
		id         any
		start, end bool
		want       int32
		says       string
	}{
		{t.Context(), 5, int64(7), true, false, 6, ""},
		{t.Context(), 3, int64(7), false, false, 8, ""},
		{ann, 100, int64(7), false, false, 0, "START flag"},
		{ann, 100, int64(7), true, false, 101, ""},
		{t.Context(), 1, int64(8), true, true, 10, ""},
		{t.Context(), 1, int64(8), false, false, 0, "START flag"},
		{t.Context(), 2, int64(7), false, true, 17, ""},
		{t.Context(), 2, int64(7), false, true, 0, "START flag"},
		{ann, 1, int64(7), false, false, 101, ""},
		{ann, 4, int64(7), true, true, 12, ""},
		{t.Context(), 1, int64(0), true, false, 0, "correlation ID"},
		{t.Context(), 1, "", true, false, 0, "correlation ID"},
		{t.Context(), 1, nil, true, false, 0, "correlation ID"},
		{t.Context(), 1, "x", true, false, 0, "must be a number"},
		{t.Context(), 1, 1.5, true, false, 0, "a whole number or a string"},
	} {
		got, err := count(c.of, s, c.x, c.id, c.start, c.end)
		if got != c.want || (err == nil) != (c.says == "") ||
			err != nil && (!strings.Contains(err.Error(), c.says) ||
				oip.KindOf(err) != oip.Invalid) {
			t.Errorf("%d in sequence %v: %d, %v, want %d, %s", c.x, c.id, got, err, c.want, c.says)
		}
	}
	m, err := s.Metadata("counter", "")
	if err != nil || len(m.Inputs) != 1 || len(m.Outputs) != 1 {
		t.Errorf("%v, %v", m, err)
	}
	if v, err := s.look("counter", ""); err != nil || len(v.sequences.all) != 0 ||
		s.bodies.Load() != 0 {
		t.Errorf("%d sequences and %d bytes are left", len(v.sequences.all), s.bodies.Load())
	}
}

// TestSequenceOfNothing: a request of a few bytes has the server make no rows that it did not send.
func TestSequenceOfNothing(t *testing.T) {
	s := begin(t, Options{}, counter)
	_, err := s.Infer(t.Context(), "counter", "", &oip.Request{
		Parameters: oip.Parameters{"sequence_id": int64(7), "sequence_start": true},
		Inputs: []oip.Input{{Name: "x", Tensor: &tensor.Tensor{DType: tensor.Int32,
			Shape: []int{1 << 20, 0}}}}})
	if oip.KindOf(err) != oip.Invalid || !strings.Contains(err.Error(), "rows without elements") {
		t.Errorf("got %v", err)
	}
}

// TestSequencesInOrder: requests of one sequence run one after another, however many come at once,
// and those of others beside them.
func TestSequencesInOrder(t *testing.T) {
	s := begin(t, Options{}, counter)
	var wait sync.WaitGroup
	for id := range int64(4) {
		wait.Go(func() {
			if _, err := count(t.Context(), s, 0, id+1, true, false); err != nil {
				t.Error(err)
			}
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					if _, err := count(t.Context(), s, 1, id+1, false, false); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if got, err := count(t.Context(), s, 0, id+1, false, true); err != nil ||
				got != 20+int32(id+1) {
				t.Errorf("%d, %v", got, err)
			}
		})
	}
	wait.Wait()
}

// TestPlainRequest: who gives all inputs needs no sequence.
func TestPlainRequest(t *testing.T) {
	s := begin(t, Options{}, counter)
	one := tensor.From([]int32{1}, 1, 1)
	r := &oip.Request{Inputs: []oip.Input{{Name: "x", Tensor: one}, {Name: "END", Tensor: one},
		{Name: "START", Tensor: &tensor.Tensor{DType: tensor.Bool, Shape: []int{1, 1},
			Data: []byte{0}}}, {Name: "READY", Tensor: tensor.From([]float32{1}, 1)},
		{Name: "ID", Tensor: tensor.From([]int64{40}, 1)}, {Name: "before", Tensor: one}}}
	a, err := s.Infer(t.Context(), "counter", "", r)
	if err != nil {
		t.Fatal(err)
	}
	if got := tensor.As[int32](a.Outputs[0].Tensor)[0]; got != 42 {
		t.Errorf("%d", got)
	}
	a.Close()
	r.Parameters = oip.Parameters{"sequence_id": int64(3), "sequence_start": true}
	if _, err := s.Infer(t.Context(), "counter", "", r); oip.KindOf(err) != oip.Invalid {
		t.Errorf("both: %v", err)
	}
}

// TestIdleSequence: a sequence without requests ends by itself, and one whose requests are answered
// does not; there are so many at most.
func TestIdleSequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &version{server: &Server{o: Options{Bodies: 100}}}
		q := newSequences(&sequencing{idle: time.Second})
		enter := func(id string, start bool) (*inSequence, error) {
			st := &inSequence{of: q, v: v, at: place{start: start}, name: sequenceID{id: id}}
			return st, st.enter(t.Context(), &auth.Account{})
		}
		st, err := enter("a", true)
		if err != nil {
			t.Fatal(err)
		}
		if err := st.keep(&task{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		st.leave()
		time.Sleep(time.Second - 1)
		if st, err = enter("a", false); err != nil {
			t.Fatalf("before it was idle: %v", err)
		}
		st.leave()
		time.Sleep(time.Second + 1)
		if _, err = enter("a", false); !errors.Is(err, oip.ErrRequest) {
			t.Errorf("once it was idle: %v", err)
		}
		for i := range mostSequences {
			if st, err = enter(fmt.Sprint(i), true); err != nil {
				t.Fatal(err)
			}
			_ = st.keep(&task{})
			st.leave()
		}
		if _, err = enter("b", true); oip.KindOf(err) != oip.Unavailable {
			t.Errorf("one more: %v", err)
		}
		time.Sleep(time.Minute)
		q.mu.Lock()
		defer q.mu.Unlock()
		if len(q.all) != 0 {
			t.Errorf("%d are left", len(q.all))
		}
	})
}

// TestProperties: what a model says of sequences is held against what it has.
func TestProperties(t *testing.T) {
	for property, says := range map[string]string{
		`"sequence.start" "z"`:      "no such input",
		`"sequence.start" "wide"`:   "one element a row",
		`"sequence.ready" "s"`:      "give one of",
		`"sequence.corrid" "half"`:  "give one of",
		`"sequence.state" "x"`:      "no input and output",
		`"sequence.state" "s=y"`:    "no input and output",
		`"sequence.idle" "soon"`:    "invalid duration",
		`"sequence.idle" "-1s"`:     "more than 0",
		`"sequence.nothing" "what"`: "no property",
	} {
		src := written("m", `graph "m" {
		  opset "" 17
		  meta `+property+`
		  input %x: int32[N,1]
		  input %wide: int32[N,2]
		  input %s: string[N,1]
		  input %half: float16[N,1]
		  %y: int32[N,1] = Neg@13 (%x)
		  output %y
		}`)
		m, err := src.Open()
		if err != nil {
			t.Fatal(err)
		}
		if _, err = describe(m, "m", "1"); !errors.Is(err, weir.ErrModel) ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", property, err, says)
		}
		_ = m.Close()
	}
}

// TestSequenceIDs: what names a sequence is kept with it, and so has bounded length.
func TestSequenceIDs(t *testing.T) {
	for n, right := range map[int]bool{mostSequenceID: true, mostSequenceID + 1: false} {
		_, err := placeOf(oip.Parameters{"sequence_id": strings.Repeat("a", n)})
		if right != (err == nil) || !right && !errors.Is(err, oip.ErrRequest) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// TestSequencesOfOwners: sequences count for whom they are, also on a server without accounts,
// where they are of users of the machine, and for nobody once they are over.
func TestSequencesOfOwners(t *testing.T) {
	v := &version{server: &Server{o: Options{Bodies: 100}}}
	q := newSequences(&sequencing{idle: time.Hour})
	st := &inSequence{of: q, v: v, at: place{start: true, end: true},
		name: sequenceID{account: "user 7", id: "a"}}
	if err := st.enter(t.Context(), &auth.Account{}); err != nil {
		t.Fatal(err)
	}
	if q.of["user 7"] != 1 {
		t.Errorf("under way are %v", q.of)
	}
	if err := st.keep(&task{}); err != nil {
		t.Fatal(err)
	}
	if st.leave(); len(q.of) > 0 {
		t.Errorf("left are %v", q.of)
	}
}

// TestTimerBehindARequest: a timer that fired before a request came, and comes to act after it was
// answered, ends nothing.
func TestTimerBehindARequest(t *testing.T) {
	v := &version{server: &Server{o: Options{Bodies: 100}}}
	q := newSequences(&sequencing{idle: time.Hour})
	name := sequenceID{id: "a"}
	st := &inSequence{of: q, v: v, at: place{start: true}, name: name}
	for range 2 {
		if err := st.enter(t.Context(), &auth.Account{}); err != nil {
			t.Fatal(err)
		}
		if err := st.keep(&task{}); err != nil {
			t.Fatal(err)
		}
		st.leave()
	}
	if st.expire(1); !q.has(name) {
		t.Error("it ended before its time")
	}
	if err := st.enter(t.Context(), &auth.Account{}); err != nil {
		t.Fatal(err)
	}
	if st.expire(2); !q.has(name) {
		t.Error("it ended under a request")
	}
	if err := st.keep(&task{}); err != nil {
		t.Fatal(err)
	}
	st.leave()
	if st.expire(3); q.has(name) || !st.seq.timer.Stop() {
		t.Error("it goes on after its time")
	}
}
