package rpc

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
	pb "github.com/weirgpu/weir/server/oip/inferencepb"
)

// errEnding is what a client is told that comes too late.
var errEnding = &oip.Fault{Kind: oip.Unavailable, RetryAfter: time.Second,
	Text: "the server is stopping"}

// ahead is how many requests of a stream are answered at once.
const ahead = 32

// inferStream is a call whose requests come one after another, and whose answers go in the same
// order, all to one request after another.
type inferStream struct {
	s      *Server
	ctx    context.Context
	stream grpc.ServerStream
	call   *call
	// strict ends the stream with the first error, as a status; otherwise errors are messages.
	strict bool
	queue  chan chan reply // in the order of the requests
	under  sync.WaitGroup  // requests that are being answered
}

// reply is what one request came to.
type reply struct {
	id      string
	answers []*answer
	err     error
}

// modelStreamInfer answers a stream of inferences. With metadata "triton_grpc_error: true" the
// first error is its status (triton-inference-server/server, docs/customization_guide/
// inference_protocols.md).
func modelStreamInfer(s *Server, ctx context.Context, stream grpc.ServerStream, k *call) error {
	ctx, _, err := s.allow(ctx, k, auth.Call{Stream: true})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	plain(ctx)
	t := &inferStream{s: s, ctx: ctx, stream: stream, call: k, queue: make(chan chan reply, ahead),
		strict: asked(ctx, "triton_grpc_error") == "true"}
	sent := make(chan error, 1)
	go func() { sent <- t.send() }()
	err = t.read()
	if err != nil {
		cancel()
	}
	close(t.queue)
	if why := <-sent; why != nil {
		err = why
	}
	return err
}

// read takes requests until the stream's end.
func (t *inferStream) read() error {
	for {
		r, err := receive(t.stream, t.call)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		to := make(chan reply, 1)
		select {
		case t.queue <- to:
		case <-t.ctx.Done():
			r.free()
			return t.ctx.Err()
		}
		m, err := oip.DecodeMessage(r, r.pieces()...)
		if err != nil {
			r.free()
			to <- reply{err: err}
			continue
		}
		if sequenced(m.Parameters) { // its state is that which the request before has left
			t.under.Wait()
			t.answer(r, m, to)
			continue
		}
		t.under.Add(1)
		go func() {
			defer t.under.Done()
			t.answer(r, m, to)
		}()
	}
}

// sequenced reports whether a request is one of a sequence (Triton, extension_sequence.md): 0 and
// "" are none.
func sequenced(p oip.Parameters) bool {
	switch id := p["sequence_id"].(type) {
	case int64:
		return id != 0
	case string:
		return id != ""
	}
	return p["sequence_id"] != nil
}

// answer computes what a request comes to.
func (t *inferStream) answer(r *received, m *oip.Message, to chan<- reply) {
	defer r.free()
	a := reply{id: m.ID}
	a.err = t.s.recovered(t.call.method.name, func() (err error) {
		return t.s.followed(t.ctx, func(ctx context.Context) error {
			a.answers, err = t.s.computeAll(ctx, t.call, r, m)
			return err
		})
	})
	to <- a
}

// send sends the answers in order, until the queue is closed. Where it cannot go on it ends the
// call, so that read returns.
func (t *inferStream) send() error {
	var failed error
	ending := t.s.ending
	for {
		select {
		case to, more := <-t.queue:
			if !more {
				return failed
			}
			a := <-to
			if failed != nil {
				drop(a.answers)
				continue
			}
			if failed = t.pass(a); failed != nil {
				t.call.end(failed)
			}
		case <-ending:
			if ending = nil; failed == nil && len(t.queue) == 0 {
				failed = errEnding
				t.call.end(failed)
			}
		}
	}
}

// pass sends the answers to one request.
func (t *inferStream) pass(a reply) error {
	for i, one := range a.answers {
		if err := t.stream.SendMsg(one); err != nil {
			drop(a.answers[i+1:])
			return err
		}
	}
	if a.err == nil {
		return nil
	}
	err := t.s.answered(t.call.method.name, a.err)
	if t.strict || t.ctx.Err() != nil {
		return err
	}
	return t.stream.SendMsg(&pb.ModelStreamInferResponse{ErrorMessage: text(a.err),
		InferResponse: &pb.ModelInferResponse{Id: a.id}})
}
