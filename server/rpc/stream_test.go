package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weirgpu/weir/server"
	pb "github.com/weirgpu/weir/server/oip/inferencepb"
)

// open opens a stream of inferences.
func (w *world) open(t *testing.T, ctx context.Context) grpc.ClientStream {
	t.Helper()
	s, err := w.client.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		prefix+"ModelStreamInfer")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// next reads the next answer of a stream.
func next(s grpc.ClientStream) (*pb.ModelStreamInferResponse, error) {
	m := &pb.ModelStreamInferResponse{}
	return m, s.RecvMsg(m)
}

// TestStream: answers come in the order of the requests, errors as messages with the request's id
// among them, and the last answer of each request says that it is.
func TestStream(t *testing.T) {
	w := begin(t, server.Options{}, identity)
	s := w.open(t, t.Context())
	const n = 100
	go func() {
		for i := range n {
			m := request("identity", uint8(i), 1)
			m.Id = fmt.Sprint(i)
			if i%7 == 3 {
				m.ModelName = "none"
			}
			if i%7 == 5 {
				m.Parameters = map[string]*pb.InferParameter{"sequence_id": {
					ParameterChoice: &pb.InferParameter_Int64Param{Int64Param: 9}}}
			}
			if err := s.SendMsg(m); err != nil {
				t.Error(err)
			}
		}
		_ = s.CloseSend()
	}()
	for i := range n {
		m, err := next(s)
		if err != nil {
			t.Fatal(err)
		}
		a := m.InferResponse
		switch {
		case a.Id != fmt.Sprint(i):
			t.Errorf("answer %d is to request %s", i, a.Id)
		case i%7 == 3:
			if m.ErrorMessage == "" || len(a.Outputs) > 0 {
				t.Errorf("request %d: %v, want an error", i, m)
			}
		case m.ErrorMessage != "" || !bytes.Equal(a.RawOutputContents[0], []byte{byte(i), 1}) ||
			!a.Parameters["triton_final_response"].GetBoolParam():
			t.Errorf("request %d: %v", i, m)
		}
	}
	if _, err := next(s); !errors.Is(err, io.EOF) {
		t.Errorf("after the last answer: %v", err)
	}
	w.idle(t)
}

// TestStrictStream: with metadata triton_grpc_error the first error is the status of the stream,
// behind the answers that were before it.
func TestStrictStream(t *testing.T) {
	w := begin(t, server.Options{}, identity)
	s := w.open(t, metadata.AppendToOutgoingContext(t.Context(), "triton_grpc_error", "true"))
	for _, name := range []string{"identity", "none", "identity"} {
		if err := s.SendMsg(request[uint8](name, 1)); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	if m, err := next(s); err != nil || m.ErrorMessage != "" {
		t.Errorf("the first answer: %v, %v", m, err)
	}
	if _, err := next(s); status.Code(err) != codes.NotFound {
		t.Errorf("the second: %v", err)
	}
	w.idle(t)
}

// TestDrain: what was taken is answered; streams end with their last answer; then nothing is taken.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, leave := make(chan struct{}, 9), make(chan struct{}, 9)
		w := begin(t, server.Options{Batch: 1}, held(entered, leave))
		idle, busy := w.open(t, t.Context()), w.open(t, t.Context())
		if err := busy.SendMsg(request[float32]("hold", 1)); err != nil {
			t.Fatal(err)
		}
		<-entered
		one := make(chan error, 1)
		go func() {
			_, err := ask[pb.ModelInferResponse](t.Context(), w, "ModelInfer",
				request[float32]("hold", 1))
			one <- err
		}()
		synctest.Wait()
		done := make(chan error, 1)
		go func() { done <- w.Drain(t.Context()) }()
		synctest.Wait()
		if _, err := next(idle); status.Code(err) != codes.Unavailable {
			t.Errorf("a stream without a request: %v", err)
		}
		leave <- struct{}{}
		leave <- struct{}{}
		if m, err := next(busy); err != nil || m.ErrorMessage != "" {
			t.Errorf("a stream with a request: %v, %v", m, err)
		}
		if err := busy.CloseSend(); err != nil {
			t.Error(err)
		}
		if err := <-one; err != nil {
			t.Errorf("a call that was taken: %v", err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		late, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := ask[pb.ServerLiveResponse](late, w, "ServerLive", &pb.ServerLiveRequest{})
		if err == nil {
			t.Error("a call was taken after the end")
		}
		w.idle(t)
	})
}

// TestDrainEnds: what is not answered in time is ended.
func TestDrainEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, leave := make(chan struct{}, 9), make(chan struct{}, 9)
		w := begin(t, server.Options{Batch: 1}, held(entered, leave))
		one := make(chan error, 1)
		go func() {
			_, err := ask[pb.ModelInferResponse](t.Context(), w, "ModelInfer",
				request[float32]("hold", 1))
			one <- err
		}()
		<-entered
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		time.AfterFunc(40*time.Second, func() { leave <- struct{}{} })
		if err := w.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the end of the time", err)
		}
		if err := <-one; status.Code(err) != codes.Unavailable {
			t.Errorf("the call: %v", err)
		}
		w.idle(t)
	})
}

// TestSeveralInStream: a request to a model whose rows are answers has them one after another,
// before those to the next request; who asks for one answer is refused.
func TestSeveralInStream(t *testing.T) {
	w := begin(t, server.Options{}, parsed("rows", `graph "rows" {
	  opset "" 17
	  meta "decoupled" "true"
	  input %x: uint8[N]
	  %y: uint8[N] = Identity@13 (%x)
	  output %y
	}`))
	s := w.open(t, t.Context())
	empty := map[string]*pb.InferParameter{"triton_enable_empty_final_response": {
		ParameterChoice: &pb.InferParameter_BoolParam{BoolParam: true}}}
	for _, p := range []map[string]*pb.InferParameter{nil, empty} {
		m := request("rows", uint8(4), 5)
		m.Parameters = p
		if err := s.SendMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	_ = s.CloseSend()
	got := ""
	for {
		m, err := next(s)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || m.ErrorMessage != "" {
			t.Fatal(m, err)
		}
		a := m.InferResponse
		got += fmt.Sprint(a.RawOutputContents, a.Parameters["triton_final_response"].GetBoolParam(),
			" ")
	}
	if want := "[[4]] false [[5]] true [[4]] false [[5]] false [] true "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if _, err := ask[pb.ModelInferResponse](t.Context(), w, "ModelInfer", request("rows", uint8(4),
		5)); status.Code(err) != codes.Unimplemented {
		t.Error(err)
	}
	w.idle(t)
}
