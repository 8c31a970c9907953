package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/weirgpu/weir/server/oip/inferencepb"
)

// asIs is a codec of messages that are bytes already.
type asIs struct{}

func (asIs) Name() string { return "proto" }

func (asIs) Marshal(v any) ([]byte, error) { return v.([]byte), nil }

func (asIs) Unmarshal(b []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), b...)
	return nil
}

type input = pb.ModelInferRequest_InferInputTensor

// messages are right, each for some call.
var messages = [][]byte{
	encoded(&pb.ModelInferRequest{ModelName: "simple", Inputs: []*input{
		{Name: "INPUT0", Datatype: "INT32", Shape: []int64{1, 4}},
		{Name: "INPUT1", Datatype: "BYTES", Shape: []int64{1, 1}}},
		RawInputContents: [][]byte{make([]byte, 16), {1, 0, 0, 0, 'a'}}}),
	encoded(&pb.ModelInferRequest{ModelName: "simple", Inputs: []*input{
		{Name: "INPUT0", Datatype: "INT32", Shape: []int64{1, 4},
			Contents: &pb.InferTensorContents{IntContents: []int32{1, 2, 3, 4}}},
		{Name: "INPUT1", Datatype: "BYTES", Shape: []int64{1, 1},
			Contents: &pb.InferTensorContents{BytesContents: [][]byte{{'a'}}}}}}),
	encoded(&pb.ModelInferRequest{ModelName: "rows", Inputs: []*input{
		{Name: "INPUT0", Datatype: "FP32", Shape: []int64{3}}},
		RawInputContents: [][]byte{make([]byte, 12)}}),
	encoded(&pb.ModelInferRequest{ModelName: "counter", Parameters: map[string]*pb.InferParameter{
		"sequence_id":    {ParameterChoice: &pb.InferParameter_Int64Param{Int64Param: 4}},
		"sequence_start": {ParameterChoice: &pb.InferParameter_BoolParam{BoolParam: true}}},
		Inputs: []*input{{Name: "INPUT0", Datatype: "INT32",
			Shape: []int64{1, 1}}}, RawInputContents: [][]byte{make([]byte, 4)}}),
	encoded(&pb.SystemSharedMemoryRegisterRequest{Name: "r", Key: "/fuzz-none", ByteSize: 8}),
	encoded(&pb.ModelConfigRequest{Name: "simple"}),
	encoded(&pb.RepositoryModelUnloadRequest{ModelName: "rows"}),
	encoded(&pb.RepositoryModelLoadRequest{ModelName: "simple", Parameters: map[string]*pb.
		ModelRepositoryParameter{"config": {ParameterChoice: &pb.
		ModelRepositoryParameter_StringParam{StringParam: "{}"}}}}),
	encoded(&pb.TraceSettingRequest{ModelName: "simple"}),
	{},
}

func encoded(m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err) // they are this package's own
	}
	return b
}

// methods are what is called, the first ones more often.
var methods = []string{"ModelInfer", "ModelInfer", "ModelInfer", "ModelStreamInfer",
	"ModelStreamInfer", "ServerLive", "ServerMetadata", "ModelReady", "ModelMetadata",
	"ModelConfig", "ModelStatistics", "RepositoryIndex", "RepositoryModelLoad",
	"RepositoryModelUnload",
	"SystemSharedMemoryStatus", "SystemSharedMemoryRegister", "SystemSharedMemoryUnregister",
	"CudaSharedMemoryStatus", "CudaSharedMemoryRegister", "CudaSharedMemoryUnregister",
	"TraceSetting", "LogSettings", "Nothing"}

// grpcClient sends cases of gRPC.
type grpcClient struct {
	of   *target
	conn *grpc.ClientConn
}

func newGRPC(t *target) *grpcClient {
	conn, err := grpc.NewClient(t.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(asIs{})))
	if err != nil {
		panic(err) // the address is one
	}
	return &grpcClient{t, conn}
}

func (c *grpcClient) close() { _ = c.conn.Close() }

// one sends one case.
func (c *grpcClient) one(rng *rand.Rand) {
	method := methods[rng.IntN(len(methods))]
	body := mutated(rng, messages[rng.IntN(len(messages))])
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := c.call(ctx, rng, method, body)
	code := status.Code(err)
	bad := code == codes.Internal || code == codes.Unknown || code == codes.DataLoss
	c.of.answered("gRPC "+code.String(), bad, fmt.Sprintf("%s %x: %v", method, body, err))
}

func (c *grpcClient) call(ctx context.Context, rng *rand.Rand, method string, body []byte) error {
	path := "/inference.GRPCInferenceService/" + method
	if method != "ModelStreamInfer" {
		var answer []byte
		return c.conn.Invoke(ctx, path, body, &answer)
	}
	s, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		path)
	if err != nil {
		return err
	}
	for range 1 + rng.IntN(3) {
		if err := s.SendMsg(body); err != nil {
			break
		}
	}
	_ = s.CloseSend()
	for {
		var answer []byte
		if err := s.RecvMsg(&answer); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// begun is how a connection of HTTP/2 begins: the preface, settings, and a block of headers.
const begun = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00" +
	"\x00\x00\x03\x01\x04\x00\x00\x00\x01\x83\x86\x84" +
	"\x00\x00\x07\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x02\x0a\x00"

// asked is a request that is answered before net/http.
var asked = "POST /v2/models/simple/versions/1/infer HTTP/1.1\r\nHost: localhost\r\n" +
	"Content-Length: " + strconv.Itoa(len(bodies[0])) + "\r\n\r\n" + bodies[0]

// raw sends bytes to either port, and does not wait long for what comes.
func (t *target) raw(rng *rand.Rand) {
	to, text := t.grpc, []byte(begun)
	switch rng.IntN(4) {
	case 0:
		to, text = t.http, []byte(strings.Repeat(asked, 1+rng.IntN(3)))
	case 1:
		to, text = t.http, []byte("POST /v2/models/simple/infer HTTP/1.1\r\nHost: localhost\r\n"+
			"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n0\r\n\r\n")
	}
	c, err := net.Dial("tcp", to)
	if err != nil {
		t.answered("connection: none", true, err.Error())
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Millisecond))
	_, _ = c.Write(mutated(rng, text))
	_, _ = io.Copy(io.Discard, c)
	t.answered("connection: sent", false, "")
}
