package dist

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// Hello is what processes must have in common: what differs is refused by its name.
type Hello map[string]string

// Order is what the leader has workers do next.
type Order struct {
	Update int64 `json:"update,omitempty"` // make the update of that number
	Take   bool  `json:"take,omitempty"`   // the state of the leader, after so many updates
	Digest bool  `json:"digest,omitempty"` // say what the state is
	End    bool  `json:"end,omitempty"`
}

// Answer is what a worker says when it has done an order.
type Answer struct {
	// Losses are those of its shards and batches, as the bits of float32.
	Losses []uint32 `json:"losses,omitempty"`
	Digest string   `json:"digest,omitempty"`
	Spans  []Span   `json:"spans,omitempty"`
	Error  string   `json:"error,omitempty"`
	// Busy and Waited are how long it computed, and waited for others, in seconds.
	Busy   float64 `json:"busy"`
	Waited float64 `json:"waited"`
}

// greeting is how a worker begins to talk.
type greeting struct {
	Hello Hello `json:"hello"`
	PID   int   `json:"pid"`
}

// reply is what the leader says to it.
type reply struct {
	Refused string `json:"refused,omitempty"`
	Leader  int    `json:"leader"` // its process
}

// Meet takes the greeting of each worker, and refuses those that do not have in common what the
// leader has. The error names what differs.
func (t *Team) Meet(h Hello) error {
	var refused error
	for r := 1; r < t.Ranks; r++ {
		var g greeting
		if err := t.from(r, &g); err != nil {
			return err
		}
		t.pids[r] = g.PID
		no := ""
		if d := differs(h, g.Hello); d != "" {
			no = fmt.Sprintf("%s is not of this run: %s", t.name(r), d)
			refused = errors.Join(refused, fmt.Errorf("%w: %s", ErrPeer, no))
		}
		if err := t.to(r, reply{Refused: no, Leader: os.Getpid()}); err != nil {
			return errors.Join(refused, err)
		}
	}
	if refused != nil {
		return t.fail(refused)
	}
	return nil
}

// differs says what two processes do not have in common, "" where all is.
func differs(leader, worker Hello) string {
	var keys []string
	for _, of := range []Hello{leader, worker} {
		for k := range of {
			if leader[k] != worker[k] && !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
	}
	if len(keys) == 0 {
		return ""
	}
	slices.Sort(keys)
	k := keys[0]
	return fmt.Sprintf("its %s is %.80q, that of the leader %.80q: start all of one build, and "+
		"leave files as they are meanwhile", k, worker[k], leader[k])
}

// Greet says to the leader what a worker has, and returns its answer.
func (t *Team) Greet(h Hello) error {
	if err := t.to(0, greeting{h, os.Getpid()}); err != nil {
		return err
	}
	var r reply
	if err := t.from(0, &r); err != nil {
		return err
	}
	t.pids[0] = r.Leader
	if r.Refused != "" {
		return t.fail(fmt.Errorf("%w: refused: %s", ErrPeer, r.Refused))
	}
	return nil
}

// Order has all workers do what o says.
func (t *Team) Order(o Order) error {
	for r := 1; r < t.Ranks; r++ {
		if err := t.to(r, o); err != nil {
			return err
		}
	}
	return nil
}

// Answers waits for what all workers say to an order, by rank; that of the leader is empty.
func (t *Team) Answers() ([]Answer, error) {
	all := make([]Answer, t.Ranks)
	for r := 1; r < t.Ranks; r++ {
		if err := t.from(r, &all[r]); err != nil {
			return nil, err
		}
		if e := all[r].Error; e != "" {
			return nil, t.fail(fmt.Errorf("%w: %s: %s", ErrPeer, t.name(r), e))
		}
	}
	return all, nil
}

// Next waits for the leader's next order.
func (t *Team) Next() (o Order, err error) {
	err = t.from(0, &o)
	return o, err
}

// Answer says to the leader what became of an order.
func (t *Team) Answer(a Answer) error { return t.to(0, a) }

func (t *Team) to(rank int, v any) error {
	if err := t.control[rank].enc.Encode(v); err != nil {
		return t.fail(fmt.Errorf("%w: %s is gone: %w", ErrPeer, t.name(rank), err))
	}
	return nil
}

// from reads what a process says. One that talks otherwise is of another version.
func (t *Team) from(rank int, v any) error {
	err := t.control[rank].dec.Decode(v)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return t.fail(fmt.Errorf("%w: %s is gone", ErrPeer, t.name(rank)))
	case errors.As(err, &syntax) || errors.As(err, &kind):
		return t.fail(fmt.Errorf("%w: %s does not talk as this build does: %w", ErrPeer,
			t.name(rank), err))
	}
	return t.fail(fmt.Errorf("%w: %s is gone: %w", ErrPeer, t.name(rank), err))
}
