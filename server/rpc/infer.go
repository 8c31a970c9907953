package rpc

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/telemetry"
)

// modelInfer answers a call for an inference.
func modelInfer(s *Server, ctx context.Context, stream grpc.ServerStream, k *call) error {
	ctx, _, err := s.allow(ctx, k, auth.Call{Stream: true}) // before the message is there
	if err != nil {
		return err
	}
	plain(ctx)
	return s.followed(ctx, func(ctx context.Context) error {
		r, err := receive(stream, k)
		if err != nil {
			return err
		}
		defer r.free()
		m, err := oip.DecodeMessage(r, r.pieces()...)
		if err != nil {
			return err
		}
		a, err := s.compute(ctx, k, r, m)
		if err != nil {
			return err
		}
		return stream.SendMsg(a)
	})
}

// plain has answers sent as they are: of what is compressed nobody knows how much was sent.
func plain(ctx context.Context) { _ = grpc.SetSendCompressor(ctx, encoding.Identity) }

// errPanic is what a request comes to that nothing else is known of.
var errPanic = errors.New("panic")

// followed calls f, which answers a request, and has the request counted.
func (s *Server) followed(ctx context.Context, f func(ctx context.Context) error) error {
	q, err := s.o.Server.Recorder().Begin(), errPanic
	if sent, ok := metadata.FromIncomingContext(ctx); ok {
		if parent := sent.Get("traceparent"); len(parent) == 1 {
			q.Traced(parent[0], strings.Join(sent.Get("tracestate"), ","))
		}
	}
	defer func() {
		switch status.Code(err) { // of gRPC's own errors
		case codes.Canceled:
			err = context.Canceled
		case codes.DeadlineExceeded:
			err = context.DeadlineExceeded
		}
		q.End(err)
	}()
	err = f(telemetry.With(ctx, q))
	return err
}

// compute computes the answer to a request.
func (s *Server) compute(ctx context.Context, k *call, r *received, m *oip.Message) (*answer,
	error) {
	if err := s.named(ctx, k, m); err != nil {
		return nil, err
	}
	out, err := s.o.Server.Infer(ctx, m.Model, m.Version, &m.Request)
	if err != nil {
		return nil, err
	}
	defer out.Close() // so that a client who reads slowly does not hold the model's memory
	a, err := encode(k, &out.Response, (*oip.Response).AppendMessage)
	if err != nil {
		return nil, err
	}
	q := telemetry.From(ctx)
	q.Mark(telemetry.Encoded)
	q.Bytes(int64(r.data.Len()), int64(len(*a.whole)))
	return a, nil
}

// named asks the guard about the model that a message names.
func (s *Server) named(ctx context.Context, k *call, m *oip.Message) error {
	if s.o.Guard == nil {
		return nil
	}
	return s.o.Guard.Message(ctx, k.method.name, m.Model)
}

// encode writes an answer.
func encode(k *call, r *oip.Response, to func(*oip.Response, []byte) ([]byte, error)) (*answer,
	error) {
	a := newAnswer(k.conn, r.MessageSize())
	var err error
	if *a.whole, err = to(r, *a.whole); err != nil {
		a.drop()
		return nil, err
	}
	return a, nil
}

// computeAll computes the answers to a request of a stream.
func (s *Server) computeAll(ctx context.Context, k *call, r *received, m *oip.Message) (
	all []*answer, err error) {
	if err := s.named(ctx, k, m); err != nil {
		return nil, err
	}
	out, err := s.o.Server.InferAll(ctx, m.Model, m.Version, &m.Request)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	bytes := 0
	if err = out.Each(func(one *oip.Response) error {
		a, err := encode(k, one, (*oip.Response).AppendStreamed)
		if err != nil {
			return err
		}
		all, bytes = append(all, a), bytes+len(*a.whole)
		return nil
	}); err != nil {
		drop(all)
		return nil, err
	}
	q := telemetry.From(ctx)
	q.Mark(telemetry.Encoded)
	q.Bytes(int64(r.data.Len()), int64(bytes))
	return all, nil
}

// drop gives back answers that will not be sent.
func drop(all []*answer) {
	for _, a := range all {
		a.drop()
	}
}
