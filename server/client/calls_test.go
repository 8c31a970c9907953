package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weirgpu/weir/server/oip"
	pb "github.com/weirgpu/weir/server/oip/inferencepb"
	"github.com/weirgpu/weir/tensor"
)

// pipes is a listener whose connections are net.Pipe.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// echoing is a server of gRPC's own, which answers requests for an inference with their data, and a
// connection to it.
func echoing(t *testing.T, handle func(ctx context.Context, m *pb.ModelInferRequest) error,
	o ...grpc.ServerOption) (*Calls, *grpc.Server) {
	s := grpc.NewServer(append(o, grpc.MaxRecvMsgSize(64<<20), grpc.UnknownServiceHandler(
		func(_ any, stream grpc.ServerStream) error {
			method, _ := grpc.MethodFromServerStream(stream)
			if method == service+"ModelMetadata" {
				m := &pb.ModelMetadataRequest{}
				if err := stream.RecvMsg(m); err != nil {
					return err
				}
				in := &pb.ModelMetadataResponse_TensorMetadata{Name: "a", Datatype: "FP32",
					Shape: []int64{-1, 2}}
				return stream.SendMsg(&pb.ModelMetadataResponse{Name: m.Name, Platform: "x",
					Versions: []string{m.Version},
					Inputs:   []*pb.ModelMetadataResponse_TensorMetadata{in}})
			}
			m := &pb.ModelInferRequest{}
			if err := stream.RecvMsg(m); err != nil {
				return err
			}
			if err := handle(stream.Context(), m); err != nil {
				return err
			}
			return stream.SendMsg(&pb.ModelInferResponse{RawOutputContents: m.RawInputContents})
		}))...)
	on := &pipes{make(chan net.Conn), make(chan struct{})}
	go func() { _ = s.Serve(on) }()
	here, there := net.Pipe()
	on.conns <- there
	c, err := newCalls(here, &url.URL{Scheme: "http", Host: "server.example"}, "secret")
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

// bytesOf is a request with so many bytes.
func bytesOf(t *testing.T, n int) *PreparedCall {
	t.Helper()
	p, err := PrepareCall("m", "3", &oip.Request{ID: "id", Parameters: oip.Parameters{
		"timeout": int64(7), "x": true, "y": "z"}, Inputs: []oip.Input{{Name: "a",
		Tensor: tensor.From(make([]uint8, n), n)}}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestCalls: gRPC's own server reads what is sent, at many calls at a time and of sizes beyond what
// may be under way at once, and answers come to who asked.
func TestCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		sizes := map[int]int{}
		c, s := echoing(t, func(ctx context.Context, m *pb.ModelInferRequest) error {
			md, _ := metadata.FromIncomingContext(ctx)
			at, _ := ctx.Deadline()
			if time.Until(at).Round(time.Second) != 20*time.Second ||
				md.Get("authorization")[0] != "Bearer secret" {
				return fmt.Errorf("deadline %v, %v", at, md)
			}
			if m.ModelName != "m" || m.ModelVersion != "3" || m.Id != "id" ||
				m.Parameters["timeout"].GetInt64Param() != 7 ||
				m.Inputs[0].Datatype != "UINT8" || int(m.Inputs[0].Shape[0]) !=
				len(m.RawInputContents[0]) {
				return fmt.Errorf("got %v", m.Inputs)
			}
			mu.Lock()
			defer mu.Unlock()
			sizes[len(m.RawInputContents[0])]++
			return nil
		})
		defer s.Stop()
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				if err := c.Send(ctx, bytesOf(t, (i%4)*300_000)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for i := range 4 {
			if sizes[i*300_000] != 10 {
				t.Errorf("sizes %v", sizes)
			}
		}
		m, err := c.Metadata(ctx, "name", "9")
		if err != nil || m.Name != "name" || m.Versions[0] != "9" || m.Inputs[0].Name != "a" ||
			m.Inputs[0].Shape[1] != 2 {
			t.Errorf("%+v, %v", m, err)
		}
		if len(c.calls) > 0 {
			t.Errorf("%d calls are kept", len(c.calls))
		}
	})
}

// TestCallErrors: what the server says in place of an answer, a deadline and the end of the
// connection are errors of their kinds.
func TestCallErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := echoing(t, func(ctx context.Context, m *pb.ModelInferRequest) error {
			switch len(m.RawInputContents[0]) {
			case 1:
				return status.Error(codes.ResourceExhausted, "50 % are too många")
			case 2:
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		err := c.Send(t.Context(), bytesOf(t, 1))
		var said *CallError
		if !errors.As(err, &said) || said.Text != "50 % are too många" || !Refused(err) ||
			Kind(err) != "ResourceExhausted" {
			t.Errorf("%v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err = c.Send(ctx, bytesOf(t, 2))
		if took := time.Since(began); took != time.Second || Refused(err) ||
			Kind(err) != "timeout" && Kind(err) != "DeadlineExceeded" {
			t.Errorf("%v after %v", err, took)
		}
		if err := c.Send(t.Context(), bytesOf(t, 3)); err != nil {
			t.Errorf("after them: %v", err)
		}
		under := make(chan error)
		go func() { under <- c.Send(t.Context(), bytesOf(t, 2)) }()
		synctest.Wait()
		s.Stop()
		if err := <-under; err == nil {
			t.Error("a call goes on without its connection")
		}
		if err := c.Send(t.Context(), bytesOf(t, 3)); err == nil {
			t.Error("a call goes on after its connection")
		}
		c.Close()
	})
}

// unheard is a context that has a deadline and does not say when it is over.
type unheard struct {
	context.Context
	at time.Time
}

// Deadline implements context.Context.
func (c unheard) Deadline() (time.Time, bool) { return c.at, true }

// TestDeadlineByTheServer: a server that cuts a call off at its deadline, before the client has
// looked at its own clock, is no server that is away; one that does so before the deadline is.
func TestDeadlineByTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := echoing(t, func(ctx context.Context, _ *pb.ModelInferRequest) error {
			<-ctx.Done()
			time.Sleep(time.Second) // so that the end of the stream comes before a status
			return ctx.Err()
		})
		defer s.Stop()
		defer time.Sleep(time.Minute) // the calls' handlers end
		defer c.Close()
		for _, left := range []time.Duration{1500 * time.Nanosecond, time.Second,
			time.Minute + 1500*time.Microsecond} {
			began := time.Now()
			err := c.Send(unheard{context.Background(), began.Add(left)}, bytesOf(t, 2))
			if took := time.Since(began); took < left || Refused(err) || Kind(err) != "timeout" {
				t.Errorf("%v after %v, of %v", err, took, left)
			}
		}
		early := &call{done: make(chan struct{}), due: time.Now().Add(time.Hour)}
		if err := c.open(early, "ModelInfer"); err != nil {
			t.Fatal(err)
		}
		c.reset(early.id, http2.ErrCodeCancel)
		if !Refused(early.err) {
			t.Errorf("cut off early: %v", early.err)
		}
	})
}

// TestLeaving: a server that ends the connection answers what is under way.
func TestLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := echoing(t, func(context.Context, *pb.ModelInferRequest) error {
			time.Sleep(time.Second)
			return nil
		})
		defer c.Close()
		under := make(chan error)
		go func() { under <- c.Send(t.Context(), bytesOf(t, 1)) }()
		synctest.Wait()
		stopped := make(chan time.Time, 1)
		go func() {
			s.GracefulStop()
			stopped <- time.Now()
		}()
		synctest.Wait()
		if err := c.Send(t.Context(), bytesOf(t, 1)); !Refused(err) {
			t.Errorf("a new call: %v", err)
		}
		if err := <-under; err != nil {
			t.Error(err)
		}
		answered := time.Now()
		if late := (<-stopped).Sub(answered); late > 0 {
			t.Errorf("the server waits for the client for %v after its last answer", late)
		}
	})
}

// TestDial: over loopback, to an address where nobody listens, and with a type that the protocol
// does not have.
func TestDial(t *testing.T) {
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	go func() { _ = s.Serve(on) }()
	c, err := Dial(t.Context(), "http://"+on.Addr().String(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var said *CallError
	if err := c.Send(t.Context(), bytesOf(t, 1)); !errors.As(err, &said) ||
		said.Code != codes.Unimplemented {
		t.Error(err)
	}
	s.Stop()
	if _, err := Dial(t.Context(), "http://"+on.Addr().String(), "", nil); Kind(err) != "refused" {
		t.Error(err)
	}
	for _, r := range []*oip.Request{{Parameters: oip.Parameters{"x": 1.5}},
		{Inputs: []oip.Input{{Name: "x", Tensor: &tensor.Tensor{}}}}} {
		if _, err := PrepareCall("m", "", r); !errors.Is(err, oip.ErrRequest) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// FuzzCalls: whatever a server sends ends the calls, and is an error where it is no answer.
func FuzzCalls(f *testing.F) {
	var sent bytes.Buffer
	recorded, err := proto.Marshal(&pb.ModelMetadataResponse{Name: "m"})
	if err != nil {
		f.Fatal(err)
	}
	_, _ = sent.Write(append([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0}, recorded...))
	f.Add(sent.Bytes())
	f.Add([]byte{0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		here, there := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, there) }()
		c, err := newCalls(here, &url.URL{Scheme: "http", Host: "x"}, "")
		if err != nil {
			t.Fatal(err)
		}
		answered := make(chan error)
		go func() {
			_, err := c.Metadata(context.Background(), "m", "")
			answered <- err
		}()
		_, _ = there.Write(b)
		_ = there.Close()
		if err := <-answered; err == nil && len(b) < 20 {
			t.Errorf("%x is an answer", b)
		}
		c.Close()
	})
}

// TestLentInput: an input in shared memory is named, and none of its bytes are sent.
func TestLentInput(t *testing.T) {
	in := oip.Input{Name: "x", Tensor: &tensor.Tensor{DType: tensor.Float32, Shape: []int{2}},
		Region: &oip.Region{Name: "r", Offset: 16, Size: 8}}
	sent := oip.Input{Name: "z", Tensor: tensor.From([]float32{1}, 1)}
	p, err := PrepareCall("m", "", &oip.Request{Inputs: []oip.Input{in, sent}})
	if err != nil {
		t.Fatal(err)
	}
	var m pb.ModelInferRequest
	if err := proto.Unmarshal(p.message[5:], &m); err != nil {
		t.Fatal(err)
	}
	got := m.Inputs[0].Parameters
	if got["shared_memory_region"].GetStringParam() != "r" ||
		got["shared_memory_offset"].GetInt64Param() != 16 ||
		got["shared_memory_byte_size"].GetInt64Param() != 8 || len(m.RawInputContents) != 1 ||
		len(m.RawInputContents[0]) != 4 {
		t.Errorf("got %v", &m)
	}
}
