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
		m, err := oip.DecodeMessage(r.pieces()...)
		if err != nil {
			return err
		}
		a, err := s.compute(ctx, k, r, m, false)
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

// compute computes the answer to a request; streamed, as one of a stream.
func (s *Server) compute(ctx context.Context, k *call, r *received, m *oip.Message,
	streamed bool) (*answer, error) {
	if s.o.Guard != nil {
		if err := s.o.Guard.Message(ctx, k.method.name, m.Model); err != nil {
			return nil, err
		}
	}
	out, err := s.o.Server.Infer(ctx, m.Model, m.Version, &m.Request)
	if err != nil {
		return nil, err
	}
	defer out.Close() // so that a client who reads slowly does not hold the model's memory
	a := newAnswer(k.conn, out.MessageSize())
	if streamed {
		out.Parameters = oip.Parameters{"triton_final_response": true}
		*a.whole, err = out.AppendStreamed(*a.whole)
	} else {
		*a.whole, err = out.AppendMessage(*a.whole)
	}
	if err != nil {
		a.drop()
		return nil, err
	}
	q := telemetry.From(ctx)
	q.Mark(telemetry.Encoded)
	q.Bytes(int64(r.data.Len()), int64(len(*a.whole)))
	return a, nil
}
