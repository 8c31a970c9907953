package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

// mostSequences is how many sequences of a model may be under way.
const mostSequences = 1024

// sequences are those of a version that are under way.
type sequences struct {
	*sequencing
	mu  sync.Mutex
	all map[sequenceID]*sequence
	of  map[string]int // how many of all are an account's
	end bool           // all end with the requests that they have
}

// sequenceID names a sequence of an account; a number and a string are two.
type sequenceID struct {
	account, id string
	text        bool
}

// sequence is a sequence that is under way.
type sequence struct {
	turn  chan struct{} // one while a request of it is answered
	state weir.Inputs   // for its next request; of whoever has the turn
	held  int64         // bytes of the server's for bodies, of state
	begun bool          // its first request was answered; of whoever has the turn
	timer *time.Timer   // ends it; under the sequences' mu
	rests int           // how often timer was set; under the sequences' mu
	users int           // requests that have or await the turn; under the sequences' mu
	over  bool          // it is in sequences.all no more; under the sequences' mu
}

func newSequences(q *sequencing) *sequences {
	return &sequences{sequencing: q, all: map[sequenceID]*sequence{}, of: map[string]int{}}
}

// drop forgets a sequence; q.mu is held.
func (q *sequences) drop(name sequenceID) {
	delete(q.all, name)
	if q.of[name.account]--; q.of[name.account] == 0 {
		delete(q.of, name.account)
	}
}

// has reports whether a sequence is under way and goes on.
func (q *sequences) has(name sequenceID) bool {
	if q == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.all[name] != nil && !q.end
}

// some reports whether any is under way.
func (q *sequences) some() bool {
	if q == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.all) > 0
}

// inSequence is a request of a sequence that has its turn. Nil stands for one without a sequence.
type inSequence struct {
	of   *sequences
	v    *version
	name sequenceID
	at   place
	seq  *sequence
}

// sequenced waits until all earlier requests of the sequence are answered, and gives the model the
// inputs that are not the client's. A request that gives them itself is one without a sequence.
func (v *version) sequenced(ctx context.Context, r *oip.Request, in weir.Inputs) (*inSequence,
	error) {
	q := v.sequences
	if q == nil {
		return nil, nil
	}
	at, err := placeOf(r.Parameters)
	if err != nil {
		return nil, err
	}
	given := false
	for name, t := range in {
		given = given || q.own(name)
		// the server makes as many rows of its own inputs, and of none a client sends any number
		if n, err := tensor.Count(t.Shape); err != nil || len(t.Shape) > 0 &&
			t.Shape[0] > max(n, 1) {
			return nil, fmt.Errorf("%w: input %.200q: shape %v has rows without elements",
				oip.ErrRequest, name, t.Shape)
		}
	}
	switch {
	case given && at.id == "":
		return nil, nil
	case given:
		return nil, fmt.Errorf("%w: the request is one of sequence %.40s, and gives inputs that "+
			"the server gives", oip.ErrRequest, at.id)
	case at.id == "":
		return nil, fmt.Errorf("%w: inference request to model '%s' must specify a non-zero or "+
			"non-empty correlation ID: give sequence_id", oip.ErrRequest, v.name)
	}
	st := &inSequence{of: q, v: v, at: at,
		name: sequenceID{auth.Owner(ctx), at.id, at.text}}
	if err := st.enter(ctx, auth.From(ctx)); err != nil {
		return nil, err
	}
	if err := st.inputs(in); err != nil {
		st.leave()
		return nil, err
	}
	return st, nil
}

// enter finds the sequence, or begins it, and waits for its turn.
func (st *inSequence) enter(ctx context.Context, a *auth.Account) error {
	q := st.of
	q.mu.Lock()
	seq := q.all[st.name]
	switch {
	case seq == nil && !st.at.start:
		q.mu.Unlock()
		return st.unknown()
	case seq == nil && len(q.all) >= mostSequences:
		q.mu.Unlock()
		return busy("model %s: %d sequences are under way, which is as many as there may be: end "+
			"one, or ask again later", st.v.name, mostSequences)
	case seq == nil && !within(a, int64(q.of[st.name.account]), 1, int64(mostSequences-len(q.all))):
		n := q.of[st.name.account]
		q.mu.Unlock()
		f := oip.Faultf(oip.Exhausted, "model %s: account %s has %d sequences, which is its part "+
			"of those that there may be: end one, or ask again later", st.v.name, a.Name, n)
		f.RetryAfter = retry
		return f
	case seq == nil:
		seq = &sequence{turn: make(chan struct{}, 1)}
		q.all[st.name] = seq
		q.of[st.name.account]++
	}
	seq.users++
	if seq.timer != nil {
		seq.timer.Stop()
		seq.timer = nil
	}
	q.mu.Unlock()
	st.seq = seq
	select {
	case seq.turn <- struct{}{}:
	case <-ctx.Done():
		q.mu.Lock()
		defer q.mu.Unlock()
		st.rest()
		return fmt.Errorf("model %s: waiting for earlier requests of sequence %.40s: %w",
			st.v.name, st.name.id, ctx.Err())
	}
	return nil
}

// unknown is the error about a sequence that was not begun, or has ended.
func (st *inSequence) unknown() error {
	return fmt.Errorf("%w: inference request for sequence %.40s to model '%s' must specify the "+
		"START flag on the first request of the sequence: give sequence_start", oip.ErrRequest,
		st.name.id, st.v.name)
}

// inputs gives the model where the request stands, and the state.
func (st *inSequence) inputs(in weir.Inputs) error {
	if !st.seq.begun && !st.at.start {
		return st.unknown() // the first request has failed, or the last was answered meanwhile
	}
	rows := max(st.v.rows(in), 1)
	if err := st.of.control(st.v, st.at, rows, in); err != nil {
		return err
	}
	for _, s := range st.of.states {
		if t := st.seq.state[s.input]; t != nil && !st.at.start {
			in[s.input] = t
			continue
		}
		x := st.v.inputs[s.input]
		t := &tensor.Tensor{DType: x.Type.DType, Shape: rowed(x, rows)}
		n, err := tensor.Count(t.Shape)
		if err != nil {
			return fmt.Errorf("%w: state %s: %w", oip.ErrRequest, s.input, err)
		}
		if t.DType == tensor.String {
			t.Strings = make([]string, n)
		} else {
			t.Data = make([]byte, n*t.DType.Size())
		}
		in[s.input] = t
	}
	return nil
}

// keep keeps what the model has returned as state, and ends the sequence with its last request.
func (st *inSequence) keep(t *task) error {
	if st == nil {
		return nil
	}
	if st.at.end {
		st.seq.begun = false
		return nil
	}
	next, size := weir.Inputs{}, int64(0)
	for _, s := range st.of.states {
		c := t.out[st.v.outputs[s.output]].Clone()
		next[s.input] = c
		size += c.Size()
	}
	if err := st.v.server.Hold(size); err != nil {
		return err
	}
	st.v.server.Release(st.seq.held)
	st.seq.state, st.seq.held, st.seq.begun = next, size, true
	return nil
}

// leave gives the turn to the next request of the sequence.
func (st *inSequence) leave() {
	if st == nil {
		return
	}
	st.of.mu.Lock()
	defer st.of.mu.Unlock()
	over := !st.seq.begun || st.of.end
	<-st.seq.turn
	if over && st.seq.users == 1 {
		st.drop()
	}
	st.rest()
}

// rest ends a request's use of the sequence, which ends itself if no other comes; of.mu is held.
func (st *inSequence) rest() {
	seq := st.seq
	if seq.users--; seq.users > 0 || seq.over {
		return
	}
	seq.rests++
	since := seq.rests
	seq.timer = time.AfterFunc(st.of.idle, func() {
		st.expire(since)
		st.v.quiet()
	})
}

// expire ends the sequence if no request came since its timer was set for that time, which may have
// fired just before one did.
func (st *inSequence) expire(since int) {
	st.of.mu.Lock()
	defer st.of.mu.Unlock()
	if st.seq.users == 0 && st.seq.rests == since {
		st.drop()
	}
}

// drop ends the sequence; of.mu is held, and nobody has the turn.
func (st *inSequence) drop() {
	if st.seq.over {
		return
	}
	st.seq.over = true
	st.of.drop(st.name)
	st.v.server.Release(st.seq.held)
	st.seq.held = 0
}

// quiet is rest of a version of which a sequence has ended by itself.
func (v *version) quiet() {
	v.server.mu.Lock()
	defer v.server.mu.Unlock()
	v.rest()
}

// finish ends all sequences of a version that have no requests, and lets the others end with those
// that they have.
func (q *sequences) finish(v *version) {
	if q == nil {
		return
	}
	defer v.quiet()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.end = true
	q.idleOnes(v.server)
}

// idleOnes ends the sequences that have no requests; q.mu is held.
func (q *sequences) idleOnes(s *Server) {
	for name, seq := range q.all {
		if seq.users > 0 {
			continue
		}
		seq.over = true
		if seq.timer != nil {
			seq.timer.Stop()
		}
		s.Release(seq.held)
		seq.held = 0
		q.drop(name)
	}
}

// close ends all sequences of a version that has no requests.
func (q *sequences) close(s *Server) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.idleOnes(s)
}
