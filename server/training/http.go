package training

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/train"
	"github.com/weirgpu/weir/train/data"
)

// mostBody is the most bytes that a request may have.
const mostBody = 16 << 20

// errAway is about a training that has no memory now.
var errAway = errors.New("the training holds no memory now: ask again when it runs")

// List is the answer to GET /v1/train.
type List struct {
	Trainings []State `json:"trainings"`
}

// Terms are what a training is promised. In a request, what is left out stays as it is.
type Terms struct {
	Compute *float64 `json:"compute,omitempty"`
	Limit   *float64 `json:"limit,omitempty"` // 1 is none
	Memory  *int64   `json:"memory_bytes,omitempty"`
}

// Sample is what is tried: the numbers of one sample, by the names of the model's inputs, as data
// files have them.
type Sample struct {
	Inputs map[string][]float64 `json:"inputs"`
}

// Scores is the answer to a sample.
type Scores struct {
	Update int64     `json:"update"` // after which
	Scores []float32 `json:"scores"`
	Best   int       `json:"best"` // the number of the greatest
}

type handler = func(w http.ResponseWriter, r *http.Request) (any, error)

// Routes are the endpoints by their patterns. With accounts, the rows of auth.Endpoints say what
// they need.
func (t *Trainings) Routes() map[string]http.Handler {
	all := map[string]http.Handler{}
	for pattern, h := range map[string]handler{
		"GET /v1/train":                  t.getList,
		"GET /v1/train/{name}":           t.getOne,
		"POST /v1/train/{name}/pause":    t.order("pause"),
		"POST /v1/train/{name}/continue": t.order("continue"),
		"POST /v1/train/{name}/stop":     t.order("stop"),
		"POST /v1/train/{name}/share":    t.postShare,
		"POST /v1/train/{name}/try":      t.postTry,
	} {
		all[pattern] = answer(h)
	}
	all["GET /v1/train/{name}/events"] = http.HandlerFunc(t.getEvents)
	return all
}

func answer(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := h(w, r)
		code := http.StatusOK
		if err != nil {
			code, body = oip.KindOf(err).Status(), oip.Failure{Error: err.Error()}
			if errors.Is(err, errAway) || errors.Is(err, errEnded) {
				code = http.StatusConflict
			}
		}
		reply(w, code, body)
	})
}

// reply writes an answer in JSON.
func reply(w http.ResponseWriter, code int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		code, b = http.StatusInternalServerError, []byte(`{"error":"the answer has no JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(append(b, '\n'))
}

// one returns the training of a request.
func (t *Trainings) one(r *http.Request) (*training, error) {
	one := t.find(r.PathValue("name"))
	if one == nil {
		return nil, oip.Faultf(oip.NotFound, "there is no training %.40q", r.PathValue("name"))
	}
	return one, nil
}

func (t *Trainings) getList(_ http.ResponseWriter, _ *http.Request) (any, error) {
	return List{t.List()}, nil
}

func (t *Trainings) getOne(_ http.ResponseWriter, r *http.Request) (any, error) {
	one, err := t.one(r)
	if err != nil {
		return nil, err
	}
	return one.now(), nil
}

func (t *Trainings) order(what string) handler {
	return func(_ http.ResponseWriter, r *http.Request) (any, error) {
		one, err := t.one(r)
		if err == nil {
			err = one.tell(r.Context(), order{what: what})
		}
		if err != nil {
			return nil, err
		}
		return one.now(), nil
	}
}

func (t *Trainings) postShare(w http.ResponseWriter, r *http.Request) (any, error) {
	one, err := t.one(r)
	if err != nil {
		return nil, err
	}
	var want Terms
	if err := read(w, r, &want); err != nil {
		return nil, err
	}
	err = one.promise(func(s *weir.Share) {
		if want.Compute != nil {
			s.Compute = *want.Compute
		}
		if want.Limit != nil {
			s.Limit = *want.Limit
		}
	})
	if most := want.Memory; most != nil && err == nil {
		err = one.tell(r.Context(), order{cap: (*weir.Bytes)(most)})
	}
	if err != nil && !errors.Is(err, errEnded) && oip.KindOf(err) == oip.Internal {
		err = oip.Faultf(oip.Invalid, "%v", err) // what no job can have, or no plan
	}
	if err != nil {
		return nil, err
	}
	return one.now(), nil
}

func (t *Trainings) postTry(w http.ResponseWriter, r *http.Request) (any, error) {
	one, err := t.one(r)
	if err != nil {
		return nil, err
	}
	var s Sample
	if err := read(w, r, &s); err != nil {
		return nil, err
	}
	var got Scores
	err = one.tell(r.Context(), order{try: func(run *train.Run) (err error) {
		got.Update = run.Done()
		got.Scores, err = run.Try(r.Context(), s.Inputs)
		return err
	}})
	if errors.Is(err, data.ErrData) {
		err = oip.Faultf(oip.Invalid, "%v", err)
	}
	if err != nil {
		return nil, err
	}
	got.Best, err = best(got.Scores)
	return got, err
}

// best is the number of the greatest score. Those that JSON does not have are an error.
func best(scores []float32) (at int, err error) {
	for i, v := range scores {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return 0, oip.Faultf(oip.Invalid, "score %d of the sample is %v: its numbers may be "+
				"too large", i, v)
		}
		if v > scores[at] {
			at = i
		}
	}
	return at, nil
}

func read(w http.ResponseWriter, r *http.Request, into any) error {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostBody))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if _, more := d.Token(); err == nil && !errors.Is(more, io.EOF) {
		err = errors.New("want one JSON object")
	}
	if err != nil {
		return oip.Faultf(oip.Invalid, "the body: %v", err)
	}
	return nil
}

// errEnded is about a training that takes no orders any more.
var errEnded = errors.New("the training has ended")

// tell gives a training an order, between two of its updates, and returns what came of it.
func (t *training) tell(ctx context.Context, o order) error {
	o.reply = make(chan error, 1)
	for {
		t.mu.Lock()
		ended, changed := t.state.Phase == Done || t.state.Phase == Failed, t.changed
		t.mu.Unlock()
		if ended {
			return errEnded
		}
		select {
		case t.orders <- o:
			select {
			case err := <-o.reply:
				return err
			case <-ctx.Done():
				return ctx.Err() // it is carried out all the same
			}
		case <-changed:
		case <-t.of.stop.Done():
			return oip.Faultf(oip.Unavailable, "the server is stopping")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// The times of a stream of events.
const (
	eventEvery = 200 * time.Millisecond // the least between two
	heartbeat  = 15 * time.Second       // the most
	patience   = 10 * time.Second       // for a reader to take one
	streamLife = 5 * time.Minute        // until a reader must ask anew
)

// getEvents streams the state of a training as it changes, until the reader is gone, may no longer
// read, or its time is over.
func (t *Trainings) getEvents(w http.ResponseWriter, r *http.Request) {
	one, err := t.one(r)
	var leave func()
	if err == nil {
		leave, err = t.readers.Enter(r.Context())
	}
	if err != nil {
		auth.Fail(w, err)
		return
	}
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	ctx, cancel := context.WithTimeout(r.Context(), streamLife)
	defer cancel()
	defer context.AfterFunc(t.stop, cancel)()
	to := http.NewResponseController(w)
	for auth.MayAll(ctx, auth.Read) {
		one.mu.Lock()
		changed := one.changed
		one.mu.Unlock()
		b, err := json.Marshal(one.now())
		if err == nil {
			_ = to.SetWriteDeadline(time.Now().Add(patience))
			_, err = fmt.Fprintf(w, "event: training\ndata: %s\n\n", b)
		}
		if err != nil || to.Flush() != nil || !beat(ctx, changed) {
			return
		}
	}
}

// beat waits between two events: for a change, but not for shorter or longer than a stream does.
// It reports whether the stream goes on.
func beat(ctx context.Context, changed <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(eventEvery):
	}
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case <-time.After(heartbeat):
	}
	return true
}
