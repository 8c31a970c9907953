package rpc

import (
	"context"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weirgpu/weir/server/auth"
	pb "github.com/weirgpu/weir/server/oip/inferencepb"
)

// method is a method of a service.
type method struct {
	name   string // in full, as in paths
	large  bool   // its messages may be as large as bodies
	stream bool   // the client may send any number of messages
	serve  func(s *Server, ctx context.Context, stream grpc.ServerStream, k *call) error
}

// desc is the method for gRPC. It knows one kind only, of streams, so that the handler runs before
// the message is there.
func (s *Server) desc(name string, m *method) grpc.StreamDesc {
	s.methods[m.name] = m
	return grpc.StreamDesc{StreamName: name, ServerStreams: m.stream, ClientStreams: m.stream,
		Handler: func(_ any, stream grpc.ServerStream) error {
			return s.answered(m.name, s.handle(m, stream))
		}}
}

// handle answers a call. A panic is an error of this call only.
func (s *Server) handle(m *method, stream grpc.ServerStream) error {
	ctx := stream.Context()
	k := callOf(ctx)
	defer k.leave()
	return s.recovered(m.name, func() error {
		if err := k.enter(ctx); err != nil {
			return err
		}
		return m.serve(s, ctx, stream, k)
	})
}

// recovered calls f and makes a panic its error.
func (s *Server) recovered(method string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.o.Log.Error("panic while answering", "method", method, "panic", p,
				"stack", string(debug.Stack()))
			err = status.Error(codes.Internal, "internal fault: the server's log has it")
		}
	}()
	return f()
}

// unary answers a call of one message by f. model is what the message names, for the guard; nil
// where it names none. Of a pointer's type the message's own is found, so that all calls have the
// same code.
func unary[P proto.Message](model func(P) string,
	f func(s *Server, ctx context.Context, m P) (proto.Message, error),
) func(*Server, context.Context, grpc.ServerStream, *call) error {
	var none P
	kind := none.ProtoReflect().Type()
	u := &one{empty: func() proto.Message { return kind.New().Interface() },
		answer: func(s *Server, ctx context.Context, m proto.Message) (proto.Message, error) {
			return f(s, ctx, m.(P))
		}}
	if model != nil {
		u.model = func(m proto.Message) string { return model(m.(P)) }
	}
	return u.serve
}

// one answers a call of one message, of a type that its functions know. It is the same code for all
// types.
type one struct {
	empty  func() proto.Message
	model  func(proto.Message) string // nil where the message names none
	answer func(*Server, context.Context, proto.Message) (proto.Message, error)
}

func (u *one) serve(s *Server, ctx context.Context, stream grpc.ServerStream, k *call) (err error) {
	r, err := receive(stream, k)
	if err != nil {
		return err
	}
	defer r.free()
	m := u.empty()
	if err := r.into(m); err != nil {
		return err
	}
	c := auth.Call{Asks: asks(m)}
	if u.model != nil {
		c.Model = u.model(m)
	}
	ctx, done, err := s.allow(ctx, k, c)
	if err != nil {
		return err
	}
	defer func() { done(err) }()
	a, err := u.answer(s, ctx, m)
	if err != nil {
		return err
	}
	return stream.SendMsg(a)
}

// asks reports whether a message that may change settings has none.
func asks(m proto.Message) bool {
	switch m := m.(type) {
	case *pb.TraceSettingRequest:
		return len(m.Settings) == 0
	case *pb.LogSettingsRequest:
		return len(m.Settings) == 0
	}
	return false
}

// allow asks the guard, where there is one.
func (s *Server) allow(ctx context.Context, k *call, c auth.Call) (context.Context, func(error),
	error) {
	c.Method, c.TLS, c.Authorization = k.method.name, k.conn.tls, k.authorization
	if s.o.Guard == nil {
		ctx = auth.WithPeer(ctx, k.conn.peer)
		return ctx, func(error) {}, auth.OwnedRPC(ctx, c)
	}
	if p, ok := peer.FromContext(ctx); ok {
		c.Peer = p.Addr.String()
	}
	return s.o.Guard.RPC(ctx, c)
}

// asked returns a value of the call's metadata, "" where there is none.
func asked(ctx context.Context, key string) string {
	if v := metadata.ValueFromIncomingContext(ctx, key); len(v) > 0 {
		return v[0]
	}
	return ""
}
