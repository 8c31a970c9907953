package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	pb "github.com/weirgpu/weir/server/oip/inferencepb"
	"github.com/weirgpu/weir/tensor"
)

// invertGraph turns light into dark.
const invertGraph = `graph "invert" {
  opset "" 17
  input %picture: float32[n,1,8,8]
  const %white: float32[1] = {1}
  %inverse: float32[n,1,8,8] = Sub@14 (%white, %picture)
  output %inverse
}`

// darkConfig is an ensemble of it and of the digits.
const darkConfig = `platform: "ensemble"
input { name: "picture" data_type: TYPE_FP32 dims: [ -1, 1, 8, 8 ] }
output { name: "digit" data_type: TYPE_FP32 dims: [ -1, 10 ] }
ensemble_scheduling {
  step { model_name: "mine" model_version: -1
    input_map { key: "image" value: "inverse" }
    output_map { key: "probabilities" value: "digit" } }
  step { model_name: "invert" model_version: -1
    input_map { key: "picture" value: "picture" }
    output_map { key: "inverse" value: "inverse" } }
}`

// writeModelText writes a graph as version 1 of a model, and returns the model's folder.
func writeModelText(t *testing.T, folder, name, text string) string {
	t.Helper()
	g, err := graph.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	of := filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Join(of, "1"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := onnx.WriteFile(filepath.Join(of, "1", "model.onnx"), g,
		onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return of
}

// inferHTTP asks a model for its one output, with one input of floats.
func inferHTTP(t *testing.T, url, model, input string, shape []int, data []float32) []float32 {
	t.Helper()
	body, err := json.Marshal(map[string]any{"inputs": []any{map[string]any{"name": input,
		"datatype": "FP32", "shape": shape, "data": data}}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.Post(url+"/v2/models/"+model+"/infer", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s (%v)", model, r.Status, b, err)
	}
	var got struct{ Outputs []struct{ Data []float32 } }
	if err := json.Unmarshal(b, &got); err != nil || len(got.Outputs) != 1 {
		t.Fatalf("%s: %s (%v)", model, b, err)
	}
	return got.Outputs[0].Data
}

// inferGRPC is inferHTTP over gRPC.
func inferGRPC(t *testing.T, c *grpc.ClientConn, model, input string, shape []int64,
	data []float32) []float32 {
	t.Helper()
	var r pb.ModelInferResponse
	if err := c.Invoke(t.Context(), rpcPrefix+"ModelInfer", &pb.ModelInferRequest{ModelName: model,
		Inputs: []*pb.ModelInferRequest_InferInputTensor{{Name: input, Datatype: "FP32",
			Shape: shape}}, RawInputContents: [][]byte{tensor.Bytes(data)}}, &r); err != nil {
		t.Fatal(err)
	}
	all := &tensor.Tensor{DType: tensor.Float32, Shape: []int{len(r.RawOutputContents[0]) / 4},
		Data: r.RawOutputContents[0]}
	return tensor.As[float32](all)
}

// rpcPrefix is what the names of calls over gRPC begin with.
const rpcPrefix = "/inference.GRPCInferenceService/"

// TestUpEnsemble: a folder's ensemble answers over HTTP and gRPC what its models answer one after
// another, bit by bit, and says how it is made.
func TestUpEnsemble(t *testing.T) {
	folder, _ := folderOf(t)
	writeModelText(t, folder, "invert", invertGraph)
	if err := os.MkdirAll(filepath.Join(folder, "dark", "1"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "dark", "config.pbtxt"), []byte(darkConfig),
		0o600); err != nil {
		t.Fatal(err)
	}
	printed, _ := up(t, "--json", "--no-cache", "--grpc", "localhost:0", "--models", folder)
	var at struct {
		HTTP, GRPC string
		Ready      bool
	}
	if err := json.NewDecoder(printed).Decode(&at); err != nil || !at.Ready {
		t.Fatalf("%+v (%v)", at, err)
	}
	picture := make([]float32, 2*64)
	for i := range picture {
		picture[i] = float32(i%17) / 16
	}
	shape := []int{2, 1, 8, 8}
	inverse := inferHTTP(t, at.HTTP, "invert", "picture", shape, picture)
	want := inferHTTP(t, at.HTTP, "mine", "image", shape, inverse)
	if got := inferHTTP(t, at.HTTP, "dark", "picture", shape, picture); !slices.Equal(got, want) {
		t.Errorf("over HTTP %v, want %v", got, want)
	}
	conn := dialed(t, at.GRPC)
	if got := inferGRPC(t, conn, "dark", "picture", []int64{2, 1, 8, 8},
		picture); !slices.Equal(got, want) {
		t.Errorf("over gRPC %v, want %v", got, want)
	}
	var m pb.ModelConfigResponse
	err := conn.Invoke(t.Context(), rpcPrefix+"ModelConfig",
		&pb.ModelConfigRequest{Name: "dark"}, &m)
	if err != nil || m.Config.Platform != "ensemble" ||
		m.Config.GetEnsembleScheduling().GetStep()[1].GetModelName() != "invert" ||
		m.Config.Parameters["ensemble"].GetStringValue() != "one graph of invert, mine" {
		t.Errorf("configuration %v (%v)", m.Config, err)
	}
	for name, want := range map[string]string{"dark": "inverse", "mine": "Conv"} {
		r, err := http.Get(at.HTTP + "/v1/models/" + name + "/graph")
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || r.StatusCode != http.StatusOK || !bytes.Contains(b, []byte(want)) {
			t.Errorf("the graph of %s: %s, %d bytes (%v)", name, r.Status, len(b), err)
		}
	}
	var out bytes.Buffer
	execute(t.Context(), []string{"model", "ls", "--server", at.HTTP}, nil, &out, &out)
	if !strings.Contains(out.String(), "READY  one graph of invert, mine") {
		t.Errorf("weir model ls: %s", out.String())
	}
}

// dialed is a connection to a server's gRPC until the test ends.
func dialed(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestUpResponseCache: what is asked again has the answer that is kept, over HTTP and gRPC, with
// the bound from the file.
func TestUpResponseCache(t *testing.T) {
	folder, _ := folderOf(t)
	for path, text := range map[string]string{
		"mine/config.pbtxt": "response_cache { enable: true }",
		"weir.yaml":         "limits: {response_cache: 1MiB}\nrepository: {folder: .}\n"} {
		if err := os.WriteFile(filepath.Join(folder, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	printed, _ := up(t, "--json", "--no-cache", "--grpc", "localhost:0", "--config",
		filepath.Join(folder, "weir.yaml"))
	var at struct{ HTTP, GRPC string }
	if err := json.NewDecoder(printed).Decode(&at); err != nil {
		t.Fatal(err)
	}
	picture := make([]float32, 64)
	want := inferHTTP(t, at.HTTP, "mine", "image", []int{1, 1, 8, 8}, picture)
	conn := dialed(t, at.GRPC)
	if got := inferGRPC(t, conn, "mine", "image", []int64{1, 1, 8, 8},
		picture); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	var m pb.ModelStatisticsResponse
	if err := conn.Invoke(t.Context(), rpcPrefix+"ModelStatistics",
		&pb.ModelStatisticsRequest{Name: "mine"}, &m); err != nil {
		t.Fatal(err)
	}
	if s := m.ModelStats[0]; s.InferenceStats.CacheHit.Count != 1 ||
		s.InferenceStats.CacheMiss.Count != 1 || s.ExecutionCount != 1 {
		t.Errorf("statistics %v", s)
	}
	if got := read(t, at.HTTP+"/metrics"); !strings.Contains(got,
		`nv_cache_num_hits_per_model{model="mine",version="1"} 1`) {
		t.Errorf("metrics %s", got)
	}
}

// pictureSteps are those that docs/serve.md shows.
const pictureSteps = `pre:
  - from: picture
    to: image
    steps:
      - decode: {colour: grey}
      - resize: {width: 8, height: 8}
      - normalise: {scale: 255}
      - layout: nchw
post:
  - from: probabilities
    to: score
    steps:
      - top: {count: 3}
      - labels: {file: labels.txt, to: digit}
`

// TestUpSteps: a picture of a digit that is uploaded has its name as the answer, as the example in
// the documentation has it, over HTTP and gRPC; what is no picture is refused.
func TestUpSteps(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "serve.md"))
	if err != nil || !strings.Contains(string(page), "```yaml\n"+pictureSteps+"```") {
		t.Errorf("docs/serve.md has other steps (%v)", err)
	}
	folder, _ := folderOf(t)
	for name, text := range map[string]string{"steps.yaml": pictureSteps,
		"labels.txt": "zero\none\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n"} {
		if err := os.WriteFile(filepath.Join(folder, "mine", name), []byte(text),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	seven, err := os.ReadFile(filepath.Join(root, "examples", "digits", "seven.png"))
	if err != nil {
		t.Fatal(err)
	}
	printed, _ := up(t, "--json", "--no-cache", "--grpc", "localhost:0", "--models", folder)
	var at struct {
		HTTP, GRPC string
		Ready      bool
	}
	if err := json.NewDecoder(printed).Decode(&at); err != nil || !at.Ready {
		t.Fatalf("%+v (%v)", at, err)
	}
	for _, c := range []struct {
		body   []byte
		status int
		says   string
	}{{seven, 200, "seven"}, {[]byte("no picture"), 400, "no known format"}} {
		q, err := http.NewRequestWithContext(t.Context(), "POST", at.HTTP+"/v2/models/mine/infer",
			bytes.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Inference-Header-Content-Length", "0")
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r.Body)
		if _ = r.Body.Close(); err != nil || r.StatusCode != c.status ||
			!strings.Contains(string(b), c.says) {
			t.Errorf("%.10q: %s %q (%v)", c.body, r.Status, b, err)
		}
	}
	conn := dialed(t, at.GRPC)
	ask := func(file []byte) (*pb.ModelInferResponse, error) {
		r := &pb.ModelInferResponse{}
		return r, conn.Invoke(t.Context(), rpcPrefix+"ModelInfer", &pb.ModelInferRequest{
			ModelName: "mine", Inputs: []*pb.ModelInferRequest_InferInputTensor{{Name: "picture",
				Datatype: "BYTES", Shape: []int64{1},
				Contents: &pb.InferTensorContents{BytesContents: [][]byte{file}}}}}, r)
	}
	if r, err := ask(seven); err != nil || len(r.Outputs) != 2 || r.Outputs[0].Name != "digit" ||
		!bytes.HasPrefix(r.RawOutputContents[0], []byte("\x05\x00\x00\x00seven")) {
		t.Errorf("over gRPC: %v (%v)", r, err)
	}
	if _, err := ask([]byte("x")); status.Code(err) != codes.InvalidArgument {
		t.Errorf("no picture over gRPC: %v", err)
	}
}
