package rpc

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/auth"
)

// The bounds of what clients may open.
const (
	// MaxCalls is how many calls a connection may have at once; it is told so, and waits with more.
	MaxCalls = 256
	// MaxConnections is how many connections a server has; others are closed at once.
	MaxConnections = 1024
)

// workers is how many goroutines stay to handle calls, one after another; more calls at a time have
// one each. One that is new has a stack that must grow first, by copies.
const workers = 16

// A client that sends or takes must get on: within patience, and on average, after as much time
// again, by pace bytes a second; as over HTTP.
const (
	patience = 10 * time.Second
	pace     = 128 << 10
	step     = 64 << 10
)

// due is when the next step must have come, of a transfer of which n bytes are done, the last of
// them at last.
func due(began, last time.Time, n int64) time.Time {
	average := began.Add(patience + time.Duration(n)*(time.Second/pace))
	if next := last.Add(patience); next.Before(average) {
		return next
	}
	return average
}

// Options say how calls are answered.
type Options struct {
	Server *server.Server
	// Guard asks who calls; nil: anybody may read and infer, and the server's own user, and root,
	// everything.
	Guard *auth.Guard
	// Log is told what goes wrong by the server's fault; nil stands for slog.Default.
	Log *slog.Logger
}

// Server answers calls. It needs [Server.Close].
type Server struct {
	o       Options
	grpc    *grpc.Server
	body    int64         // the most bytes of a message
	ending  chan struct{} // closed once no more calls are taken
	end     sync.Once
	conns   atomic.Int64
	methods map[string]*method // by full name
}

// New returns a server that serves nothing yet.
func New(o Options) *Server {
	o.Log = cmp.Or(o.Log, slog.Default())
	s := &Server{o: o, ending: make(chan struct{}), methods: map[string]*method{}}
	s.body, _ = o.Server.Limits()
	s.grpc = grpc.NewServer(
		grpc.Creds(handshake{s}),
		grpc.InTapHandle(s.tap),
		grpc.ForceServerCodecV2(codec{}),
		grpc.MaxRecvMsgSize(int(s.body)),
		grpc.MaxSendMsgSize(1<<31-1), // a client has a bound of its own
		grpc.MaxConcurrentStreams(MaxCalls),
		grpc.NumStreamWorkers(workers),
		grpc.MaxHeaderListSize(64<<10),
		// what a call has that nobody reads yet, and all of a connection's that were not accepted;
		// a message that is being read may come as a whole
		grpc.StaticStreamWindowSize(256<<10),
		grpc.StaticConnWindowSize(4<<20),
		grpc.ConnectionTimeout(patience),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute,
			Timeout: 20 * time.Second, MaxConnectionIdle: 30 * time.Minute}),
		// clients of Triton's may ask as often as they like whether the connection stands
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second,
			PermitWithoutStream: true}),
		grpc.WaitForHandlers(true))
	s.register()
	return s
}

// Serve answers the calls of the connections that a listener has, which are plain or *tls.Conn,
// until Drain or Close. It closes the listener.
func (s *Server) Serve(on net.Listener) error {
	err := s.grpc.Serve(on)
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// Drain takes no more calls, and waits until those that were taken are answered, or ctx is done,
// whose cause it then returns; calls that are left are ended. A stream ends with its last answer.
func (s *Server) Drain(ctx context.Context) error {
	s.end.Do(func() { close(s.ending) })
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.grpc.GracefulStop()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		s.grpc.Stop()
		<-done
		return context.Cause(ctx)
	}
}

// Close ends all calls and connections.
func (s *Server) Close() {
	s.end.Do(func() { close(s.ending) })
	s.grpc.Stop()
}
