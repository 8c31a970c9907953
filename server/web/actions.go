package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/share"
)

// mostBody is the most bytes that a change may have.
const mostBody = 64 << 10

// Share is a model's share. In a request, what is left out stays as it is.
type Share struct {
	Class   *string  `json:"class,omitempty"`
	Compute *float64 `json:"compute,omitempty"`
	Limit   *float64 `json:"limit,omitempty"` // 1 is none
	Memory  *int64   `json:"memory_bytes,omitempty"`
}

// Changed is the answer to a change: what was before, to be asked for again where that is undone,
// and what is now.
type Changed[T any] struct {
	Before T `json:"before"`
	Now    T `json:"now"`
}

// Chosen is the policy of a device.
type Chosen struct {
	Policy string `json:"policy"`
}

// Stands is the state of a model.
type Stands struct {
	State string `json:"state"`
}

// errChanged is the kind of errors about what is other than a change expects it to be.
var errChanged = errors.New("it was changed since, and stays as it is")

// postPolicy makes another policy decide, if the one does that is named.
func (p *Page) postPolicy(w http.ResponseWriter, r *http.Request) error {
	var want struct {
		Chosen
		If *string `json:"if"`
	}
	if err := read(w, r, &want); err != nil {
		return err
	}
	p.changing.Lock()
	defer p.changing.Unlock()
	before := p.source.Status().Policy
	if want.If != nil && *want.If != before {
		return fmt.Errorf("the policy is %s, not %.80s: %w", before, *want.If, errChanged)
	}
	if err := p.source.SetPolicy(want.Policy); err != nil {
		return err
	}
	reply(w, http.StatusOK, encode(Changed[Chosen]{Chosen{before},
		Chosen{p.source.Status().Policy}}))
	return nil
}

// postShare gives a model another share, if what is named of it still is so.
func (p *Page) postShare(w http.ResponseWriter, r *http.Request) error {
	var want struct {
		Share
		If Share `json:"if"`
	}
	if err := read(w, r, &want); err != nil {
		return err
	}
	c, err := p.setShare(r.PathValue("model"), want.Share, want.If)
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, encode(c))
	return nil
}

// SetShare gives a model another share, of which what is left out stays. The error is an
// [oip.Fault] of kind NotFound where the model is not served, or that of [Source.SetShare].
func (p *Page) SetShare(model string, want Share) (c Changed[Share], err error) {
	return p.setShare(model, want, Share{})
}

// setShare is SetShare where the share still has what is in expected; else the error is of kind
// errChanged.
func (p *Page) setShare(model string, want, expected Share) (c Changed[Share], err error) {
	p.changing.Lock()
	defer p.changing.Unlock()
	now, ok := p.share(model)
	if !ok {
		return c, oip.Faultf(oip.NotFound, "model %.200q has no share: it is not served", model)
	}
	if what := expected.differs(ShareOf(now)); what != "" {
		return c, fmt.Errorf("%s of model %s is not what the change expects: %w", what, model,
			errChanged)
	}
	now.Memory = 0 // which leaves what requests may be raising now
	if err := want.onto(&now); err != nil {
		return c, err
	}
	before, err := p.source.SetShare(model, now)
	if err != nil {
		return c, err
	}
	now, _ = p.share(model)
	return Changed[Share]{ShareOf(before), ShareOf(now)}, nil
}

// postProgram gives a program another share.
func (p *Page) postProgram(w http.ResponseWriter, r *http.Request) error {
	var want Share
	if err := read(w, r, &want); err != nil {
		return err
	}
	name := r.PathValue("program")
	if p.o.SetProgram == nil {
		return oip.Faultf(oip.NotFound, "there is no program %.200q", name)
	}
	c, err := p.o.SetProgram(r.FormValue("device"), name, want)
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, encode(c))
	return nil
}

// share returns the share of a model's newest version that is served.
func (p *Page) share(model string) (s weir.Share, ok bool) {
	st := p.source.Status()
	for _, m := range modelRows(&st, p.source.Index(true)) {
		for i := range st.Jobs {
			if u := &st.Jobs[i]; m.Name == model && modelOf(u.Name) == model && m.of(u) {
				s, ok = u.Share, true
			}
		}
	}
	return s, ok
}

// differs returns the name of something in q that now has otherwise, "" for nothing.
func (q *Share) differs(now Share) string {
	switch {
	case q.Class != nil && *q.Class != *now.Class:
		return "class"
	case q.Compute != nil && *q.Compute != *now.Compute:
		return "compute"
	case q.Limit != nil && *q.Limit != *now.Limit:
		return "limit"
	case q.Memory != nil && *q.Memory != *now.Memory:
		return "memory_bytes"
	}
	return ""
}

// onto changes s as is asked for.
func (q *Share) onto(s *weir.Share) error {
	if q.Class != nil {
		c, err := share.ParseClass(*q.Class)
		if err != nil {
			return oip.Faultf(oip.Invalid, "class: %v", err)
		}
		s.Class = c
	}
	if q.Compute != nil {
		s.Compute = *q.Compute
	}
	if q.Limit != nil {
		s.Limit = *q.Limit
	}
	if q.Memory != nil {
		if *q.Memory <= 0 {
			return oip.Faultf(oip.Invalid, "memory_bytes is %d: give a number of bytes",
				*q.Memory)
		}
		s.Memory = weir.Bytes(*q.Memory)
	}
	return nil
}

// ShareOf is a share as requests and answers have it.
func ShareOf(s weir.Share) Share {
	class, limit, memory := s.Class.String(), s.Cap(), int64(s.Memory)
	return Share{&class, &s.Compute, &limit, &memory}
}

func (p *Page) postLoad(w http.ResponseWriter, r *http.Request) error {
	return p.turn(w, r, func(name string) error {
		return p.source.LoadModel(r.Context(), name, nil)
	})
}

func (p *Page) postUnload(w http.ResponseWriter, r *http.Request) error {
	return p.turn(w, r, func(name string) error {
		return p.source.UnloadModel(r.Context(), name, nil)
	})
}

// turn loads or unloads a model.
func (p *Page) turn(w http.ResponseWriter, r *http.Request, do func(name string) error) error {
	name := r.PathValue("model")
	before := p.state(name)
	if err := do(name); err != nil {
		return err
	}
	reply(w, http.StatusOK, encode(Changed[Stands]{Stands{before}, Stands{p.state(name)}}))
	return nil
}

// state is that of a model in the index.
func (p *Page) state(name string) string {
	for _, m := range modelRows(&weir.HostStatus{}, p.source.Index(false)) {
		if m.Name == name {
			return m.State
		}
	}
	return "UNAVAILABLE"
}

// read reads a body in JSON; keys that are not known are refused.
func read(w http.ResponseWriter, r *http.Request, to any) error {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostBody))
	d.DisallowUnknownFields()
	err := d.Decode(to)
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return oip.Faultf(oip.TooLarge, "the body has more than %d bytes",
			large.Limit)
	}
	if err != nil {
		return oip.Faultf(oip.Invalid, "body: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return oip.Faultf(oip.Invalid, "body: more than one value")
	}
	return nil
}

// status is the HTTP status of an error.
func status(err error) int {
	switch {
	case errors.Is(err, weir.ErrOption):
		return http.StatusBadRequest
	case errors.Is(err, errChanged), errors.Is(err, weir.ErrMemory),
		errors.Is(err, weir.ErrCompute):
		return http.StatusConflict // with what others are promised
	case errors.Is(err, weir.ErrClosed):
		return http.StatusServiceUnavailable
	}
	return oip.KindOf(err).Status()
}
