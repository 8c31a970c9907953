package server

import (
	"context"
	"errors"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/share"
)

// Workplace is a job beside the models that computes what is not theirs, such as training, in the
// opportunistic class. Its memory is lent, as that of a [Beside]. It needs [Workplace.Close].
type Workplace struct {
	lodger
	*seat.Workplace
}

// Machine is the device of the server, until its Close.
func (s *Server) Machine() *machine.Machine { return seat.Of(s.host).Machine }

// Enter admits a job that will hold so much memory of the device; compute is its weight for
// policies that know no classes, 0 for that of batch jobs. The error is of kind [weir.ErrMemory]
// where the memory is promised to others.
func (s *Server) Enter(job string, need weir.Bytes, terms weir.Share) (*Workplace, error) {
	terms.Class = weir.Opportunistic
	if terms.Compute == 0 {
		terms.Compute = min(besideWeight, terms.Cap())
	}
	var w *seat.Workplace
	err := s.roomy(s.life, func() (err error) {
		w, err = seat.NewWorkplace(seat.Of(s.host), share.Job{Name: job, Share: terms}, need)
		return err
	})
	if err != nil {
		return nil, err
	}
	p := &Workplace{lodger: s.lodger(), Workplace: w}
	s.keep(&p.lodger)
	return p, nil
}

// Recalled is done once the memory is to be given back, with [ErrRecalled] as its cause, or once
// the server ends.
func (w *Workplace) Recalled() context.Context { return w.life }

// WhyRecalled is [ErrRecalled] where the memory was asked back, else nil.
func (w *Workplace) WhyRecalled() error {
	if errors.Is(context.Cause(w.life), ErrRecalled) {
		return ErrRecalled
	}
	return nil
}

// Close ends the job. What it held of memory must have been given back.
func (w *Workplace) Close() {
	w.Workplace.Close()
	w.leave()
}
