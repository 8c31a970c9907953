package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/op"
	"github.com/weirgpu/weir/server"
	pb "github.com/weirgpu/weir/server/oip/inferencepb"
	"github.com/weirgpu/weir/tensor"
)

// TestMain opens the device that a process has once, which must not belong to the bubble of a test.
func TestMain(m *testing.M) {
	model, err := weir.Load(digits.Model)
	if err == nil {
		err = model.Close()
	}
	if err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// world is a server with its models, and a client.
type world struct {
	*Server
	models *server.Server
	log    *record
	dial   func(...grpc.DialOption) *grpc.ClientConn
	pipe   func() net.Conn
	client *grpc.ClientConn
}

// record is a log that is read while calls write it.
type record struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (r *record) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

// String is what was written so far.
func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// begin serves models through pipes, until the test ends.
func begin(t *testing.T, o server.Options, sources ...server.Source) *world {
	t.Helper()
	w := &world{log: &record{}}
	o.Log = slog.New(slog.NewTextHandler(w.log, nil))
	var err error
	if w.models, err = server.New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.models.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := w.models.LoadAll(t.Context(), sources); err != nil {
		t.Fatal(err)
	}
	w.Server = New(Options{Server: w.models, Log: o.Log})
	on := newPipes()
	served := make(chan error, 1)
	go func() { served <- w.Serve(on) }()
	w.pipe = on.dial
	w.dial = func(more ...grpc.DialOption) *grpc.ClientConn {
		more = append(more, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
				return on.dial(), nil
			}), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)))
		c, err := grpc.NewClient("passthrough:pipe", more...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	w.client = w.dial()
	t.Cleanup(func() {
		_ = w.client.Close()
		w.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return w
}

// pipes is a listener whose connections are net.Pipe.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) dial() net.Conn {
	a, b := net.Pipe()
	select {
	case p.conns <- b:
	case <-p.closed:
		_ = b.Close()
	}
	return a
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
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

const prefix = "/inference.GRPCInferenceService/"

// ask calls a method of one message.
func ask[A any, P interface {
	*A
	proto.Message
}](ctx context.Context, w *world, method string, m proto.Message, o ...grpc.CallOption) (P, error) {
	a := P(new(A))
	return a, w.client.Invoke(ctx, prefix+method, m, a, o...)
}

func digitsSource() server.Source {
	return server.Source{Name: "digits", Version: 3, Open: func() (*weir.Model, error) {
		return weir.Load(digits.Model)
	}}
}

// parsed is a model of a graph's text.
func parsed(name, text string, o ...weir.Option) server.Source {
	return server.Source{Name: name, Version: 1, Open: func() (*weir.Model, error) {
		g, err := graph.Parse(text)
		if err != nil {
			return nil, err
		}
		var file bytes.Buffer
		if err := onnx.Write(&file, g, onnx.WriteOptions{}); err != nil {
			return nil, err
		}
		return weir.Load(file.Bytes(), o...)
	}}
}

// identity returns its input, of any length.
var identity = parsed("identity", `graph "identity" {
  opset "" 17
  input %x: uint8[N]
  %y: uint8[N] = Identity@13 (%x)
  output %y
}`)

// held is a model that says when it runs, and waits for leave, but for the first run, which the
// server warms it up with; with a negative input it fails.
func held(entered chan<- struct{}, leave <-chan struct{}) server.Source {
	var warm atomic.Bool
	o := weir.Operator{Domain: "test", Name: "Hold", Inputs: 1, Random: true,
		Eval: func(c *op.Eval) error {
			x := tensor.As[float32](c.In[0])
			if warm.Swap(true) {
				entered <- struct{}{}
				<-leave
			}
			if len(x) > 0 && x[0] < 0 {
				return errors.New("broken by itself")
			}
			y, err := c.Output(0, tensor.Float32, c.In[0].Shape)
			if err == nil {
				copy(y.Data, c.In[0].Data)
			}
			return err
		}}
	return parsed("hold", `graph "hold" {
  opset "" 17
  opset "test" 1
  input %x: float32[N]
  %y: float32[N] = test:Hold@1 (%x)
  output %y
}`, weir.WithOperators(o))
}

// request is one for a model with an input of one dimension.
func request[T tensor.Elem](model string, values ...T) *pb.ModelInferRequest {
	x := tensor.From(values, len(values))
	name := map[tensor.DType]string{tensor.Float32: "FP32", tensor.Uint8: "UINT8"}[x.DType]
	return &pb.ModelInferRequest{ModelName: model, Id: "7",
		Inputs: []*pb.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: name,
			Shape: []int64{int64(len(values))}}}, RawInputContents: [][]byte{x.Data}}
}

// picture is a request for a classification of pictures, and the answer's elements.
func picture(t testing.TB, n int) (*pb.ModelInferRequest, []byte) {
	t.Helper()
	images, err := digits.Images()
	if err != nil {
		t.Fatal(err)
	}
	pixels := digits.Input(images[:n]...)
	m, err := weir.Load(digits.Model)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	x, err := weir.NewTensor(pixels, n, 1, 8, 8)
	if err != nil {
		t.Fatal(err)
	}
	out, err := m.Run(t.Context(), weir.Inputs{"image": x})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p, err := weir.Output[float32](out, "probabilities")
	if err != nil {
		t.Fatal(err)
	}
	return &pb.ModelInferRequest{ModelName: "digits", Id: "a",
		Inputs: []*pb.ModelInferRequest_InferInputTensor{{Name: "image", Datatype: "FP32",
			Shape: []int64{int64(n), 1, 8, 8}}}, RawInputContents: [][]byte{tensor.Bytes(pixels)},
	}, bytes.Clone(tensor.Bytes(p))
}

// TestInfer: however a request comes, the numbers are those of the model alone, bit by bit.
func TestInfer(t *testing.T) {
	w := begin(t, server.Options{}, digitsSource())
	asked := 0
	for _, n := range []int{1, 100} {
		raw, want := picture(t, n)
		typed := proto.CloneOf(raw)
		typed.Inputs[0].Contents = &pb.InferTensorContents{
			Fp32Contents: tensor.Cast[float32](raw.RawInputContents[0])}
		typed.RawInputContents = nil
		named := proto.CloneOf(raw)
		named.ModelVersion = "3"
		named.Outputs = []*pb.ModelInferRequest_InferRequestedOutputTensor{{Name: "probabilities"}}
		for way, m := range map[string]*pb.ModelInferRequest{"raw": raw, "contents": typed,
			"named": named} {
			for _, o := range [][]grpc.CallOption{nil, {grpc.UseCompressor("gzip")},
				{grpc.UseCompressor("deflate")}} {
				a, err := ask[pb.ModelInferResponse](t.Context(), w, "ModelInfer", m, o...)
				if err != nil {
					t.Errorf("%s, %d pictures: %v", way, n, err)
					continue
				}
				asked++
				if got := a.RawOutputContents[0]; !bytes.Equal(got, want) || a.Id != "a" ||
					a.ModelName != "digits" || a.ModelVersion != "3" ||
					a.Outputs[0].Datatype != "FP32" || a.Outputs[0].Shape[0] != int64(n) {
					t.Errorf("%s, %d pictures: %v", way, n, a)
				}
			}
		}
	}
	all, err := ask[pb.ModelStatisticsResponse](t.Context(), w, "ModelStatistics",
		&pb.ModelStatisticsRequest{Name: "digits"})
	if err != nil || all.ModelStats[0].InferenceStats.Success.Count != uint64(asked) ||
		all.ModelStats[0].ExecutionCount != uint64(asked) {
		t.Errorf("%d requests were answered, and counted as %v, %v", asked, all, err)
	}
	w.idle(t)
}

// idle holds that no memory is held without a request.
func (w *world) idle(t *testing.T) {
	t.Helper()
	_ = w.client.Close()
	w.Close()
	_, bodies := w.models.Limits()
	if err := w.models.Hold(bodies); err != nil {
		t.Errorf("without a request: %v", err)
	} else {
		w.models.Release(bodies)
	}
}

// TestMethods: what each method of one message answers.
func TestMethods(t *testing.T) {
	w := begin(t, server.Options{Version: "1.2"}, digitsSource())
	for _, c := range []struct {
		method string
		m, a   proto.Message
		says   string
	}{
		{"ServerLive", &pb.ServerLiveRequest{}, &pb.ServerLiveResponse{}, "live:true"},
		{"ServerReady", &pb.ServerReadyRequest{}, &pb.ServerReadyResponse{}, "ready:true"},
		{"ModelReady", &pb.ModelReadyRequest{Name: "digits", Version: "3"},
			&pb.ModelReadyResponse{}, "ready:true"},
		{"ServerMetadata", &pb.ServerMetadataRequest{}, &pb.ServerMetadataResponse{},
			`name:"weir" version:"1.2" extensions:"binary_tensor_data"`},
		{"ModelMetadata", &pb.ModelMetadataRequest{Name: "digits"}, &pb.ModelMetadataResponse{},
			`name:"digits" versions:"3" platform:"onnx_onnxv1" inputs:{name:"image" ` +
				`datatype:"FP32" shape:-1 shape:1 shape:8 shape:8} outputs:{name:"probabilities" ` +
				`datatype:"FP32" shape:-1 shape:10}`},
		{"ModelConfig", &pb.ModelConfigRequest{Name: "digits"}, &pb.ModelConfigResponse{},
			`config:{name:"digits" platform:"onnx_onnxv1"`},
		{"ModelStatistics", &pb.ModelStatisticsRequest{}, &pb.ModelStatisticsResponse{},
			`model_stats:{name:"digits" version:"3" inference_stats:{`},
		{"RepositoryIndex", &pb.RepositoryIndexRequest{}, &pb.RepositoryIndexResponse{},
			`models:{name:"digits" version:"3" state:"READY"}`},
		{"RepositoryModelLoad", &pb.RepositoryModelLoadRequest{ModelName: "x",
			Parameters: map[string]*pb.ModelRepositoryParameter{"file:1/model.onnx": {
				ParameterChoice: &pb.ModelRepositoryParameter_BytesParam{
					BytesParam: make([]byte, 2<<20)}}}},
			&pb.RepositoryModelLoadResponse{}, "InvalidArgument: parameter file"},
		{"RepositoryModelUnload", &pb.RepositoryModelUnloadRequest{ModelName: "x"},
			&pb.RepositoryModelUnloadResponse{}, "NotFound: Request for unknown model"},
		{"SystemSharedMemoryStatus", &pb.SystemSharedMemoryStatusRequest{},
			&pb.SystemSharedMemoryStatusResponse{}, "Unimplemented: shared memory is off"},
		{"SystemSharedMemoryRegister", &pb.SystemSharedMemoryRegisterRequest{Name: "r"},
			&pb.SystemSharedMemoryRegisterResponse{}, "Unimplemented: shared memory is off"},
		{"SystemSharedMemoryRegister", &pb.SystemSharedMemoryRegisterRequest{Offset: 1 << 63},
			&pb.SystemSharedMemoryRegisterResponse{}, "InvalidArgument: 0 bytes"},
		{"SystemSharedMemoryUnregister", &pb.SystemSharedMemoryUnregisterRequest{},
			&pb.SystemSharedMemoryUnregisterResponse{}, "Unimplemented: shared memory is off"},
		{"CudaSharedMemoryStatus", &pb.CudaSharedMemoryStatusRequest{Name: "r"},
			&pb.CudaSharedMemoryStatusResponse{}, "Unimplemented: CUDA"},
		{"CudaSharedMemoryRegister", &pb.CudaSharedMemoryRegisterRequest{Name: "r"},
			&pb.CudaSharedMemoryRegisterResponse{}, "Unimplemented: CUDA"},
		{"CudaSharedMemoryRegister", &pb.CudaSharedMemoryRegisterRequest{},
			&pb.CudaSharedMemoryRegisterResponse{}, "InvalidArgument: the region"},
		{"CudaSharedMemoryUnregister", &pb.CudaSharedMemoryUnregisterRequest{Name: "r"},
			&pb.CudaSharedMemoryUnregisterResponse{}, "Unimplemented: CUDA"},
		{"Nothing", &pb.LogSettingsRequest{}, &pb.LogSettingsResponse{}, "Unimplemented: unknown"},
	} {
		err := w.client.Invoke(t.Context(), prefix+c.method, c.m, c.a)
		got := strings.ReplaceAll(fmt.Sprint(c.a), "  ", " ")
		if err != nil {
			s := status.Convert(err)
			got = fmt.Sprintf("%v: %s", s.Code(), s.Message())
		}
		if !strings.HasPrefix(got, c.says) {
			t.Errorf("%s: %s, want %s", c.method, got, c.says)
		}
	}
	w.idle(t)
}

// TestNotReady: of a model or version that is not there it is said that it is not ready, which is
// how clients ask whether it is gone.
func TestNotReady(t *testing.T) {
	w := begin(t, server.Options{}, digitsSource())
	for _, m := range []*pb.ModelReadyRequest{{Name: "digits", Version: "2"}, {Name: "a/.."}} {
		a, err := ask[pb.ModelReadyResponse](t.Context(), w, "ModelReady", m)
		if err != nil || a.Ready {
			t.Errorf("%v: %v, %v", m, a, err)
		}
	}
	w.idle(t)
}

// TestErrors: errors have the codes of their kinds, and say when to ask again.
func TestErrors(t *testing.T) {
	entered, leave := make(chan struct{}, 9), make(chan struct{}, 9)
	w := begin(t, server.Options{Queue: 1, Batch: 1, Body: 1 << 20}, identity, held(entered, leave))
	wrong := request[uint8]("identity", 1)
	wrong.Inputs[0].Name = "z"
	region := request[uint8]("identity", 1)
	region.RawInputContents = nil
	region.Inputs[0].Parameters = map[string]*pb.InferParameter{
		"shared_memory_region": {ParameterChoice: &pb.InferParameter_StringParam{
			StringParam: "r"}},
		"shared_memory_byte_size": {ParameterChoice: &pb.InferParameter_Int64Param{
			Int64Param: 1}}}
	for _, c := range []struct {
		m    *pb.ModelInferRequest
		code codes.Code
		says string
	}{
		{request[uint8]("none", 1), codes.NotFound, "Request for unknown model"},
		{wrong, codes.InvalidArgument, `"z"`},
		{request[float32]("identity", 1), codes.InvalidArgument, "float32"},
		{region, codes.Unimplemented, "shared memory"},
		{request("identity", make([]uint8, 1<<20)...), codes.ResourceExhausted, "at most 1048576"},
	} {
		_, err := ask[pb.ModelInferResponse](t.Context(), w, "ModelInfer", c.m)
		if s := status.Convert(err); s.Code() != c.code || !strings.Contains(s.Message(), c.says) {
			t.Errorf("%.200v: %v, want %v with %q", c.m, err, c.code, c.says)
		}
	}
	leave <- struct{}{}
	_, err := ask[pb.ModelInferResponse](t.Context(), w, "ModelInfer", request[float32]("hold", -1))
	if status.Code(err) != codes.Internal || !strings.Contains(w.log.String(), "broken by itself") {
		t.Errorf("a model that fails: %v; log %s", err, w.log)
	}
	<-entered

	first := make(chan error, 1)
	go func() {
		_, err := ask[pb.ModelInferResponse](t.Context(), w, "ModelInfer",
			request[float32]("hold", 1))
		first <- err
	}()
	<-entered
	// one of two has the only place to wait
	others := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := ask[pb.ModelInferResponse](t.Context(), w, "ModelInfer",
				request[float32]("hold", 1))
			others <- err
		}()
	}
	s := status.Convert(<-others)
	if s.Code() != codes.Unavailable || len(s.Proto().Details) != 1 {
		t.Fatalf("beyond the queue: %v", s)
	}
	if d := s.Proto().Details[0]; d.TypeUrl != "type.googleapis.com/google.rpc.RetryInfo" ||
		!bytes.HasPrefix(d.Value, []byte{0x0a, byte(len(d.Value) - 2), 0x08}) {
		t.Errorf("details %v", d)
	}
	leave <- struct{}{}
	leave <- struct{}{}
	for _, c := range []chan error{first, others} {
		if err := <-c; err != nil {
			t.Error(err)
		}
	}
	w.idle(t)
}

// TestEnds: the deadline and the end of a call reach the inference.
func TestEnds(t *testing.T) {
	entered, leave := make(chan struct{}, 9), make(chan struct{}, 9)
	w := begin(t, server.Options{Queue: 9, Batch: 1}, held(entered, leave))
	first := make(chan error, 1)
	go func() {
		_, err := ask[pb.ModelInferResponse](t.Context(), w, "ModelInfer",
			request[float32]("hold", 1))
		first <- err
	}()
	<-entered
	late, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := ask[pb.ModelInferResponse](late, w, "ModelInfer", request[float32]("hold", 1))
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("after the deadline: %v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	_, err = ask[pb.ModelInferResponse](over, w, "ModelInfer", request[float32]("hold", 1))
	if status.Code(err) != codes.Canceled {
		t.Errorf("after the end: %v", err)
	}
	timed := request[float32]("hold", 1)
	timed.Parameters = map[string]*pb.InferParameter{"timeout": {
		ParameterChoice: &pb.InferParameter_Int64Param{Int64Param: 1}}}
	if _, err = ask[pb.ModelInferResponse](t.Context(), w, "ModelInfer", timed); status.Code(err) !=
		codes.DeadlineExceeded {
		t.Errorf("with a timeout of 1 µs: %v", err)
	}
	leave <- struct{}{}
	if err := <-first; err != nil {
		t.Error(err)
	}
	// those that ended did not run
	select {
	case <-entered:
		t.Error("a request ran that was over")
	default:
	}
	w.idle(t)
}

// TestPanic: a panic ends its call and nothing else.
func TestPanic(t *testing.T) {
	w := begin(t, server.Options{}, identity)
	w.methods[prefix+"ServerLive"].serve = func(*Server, context.Context, grpc.ServerStream,
		*call) error {
		panic("a bug")
	}
	_, err := ask[pb.ServerLiveResponse](t.Context(), w, "ServerLive", &pb.ServerLiveRequest{})
	if status.Code(err) != codes.Internal || !strings.Contains(w.log.String(), "a bug") ||
		strings.Contains(err.Error(), "a bug") {
		t.Errorf("%v; log %s", err, w.log)
	}
	if _, err := ask[pb.ModelInferResponse](t.Context(), w, "ModelInfer",
		request[uint8]("identity", 1)); err != nil {
		t.Errorf("after it: %v", err)
	}
	w.idle(t)
}
