package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/op"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/client"
	"github.com/weirgpu/weir/server/oip"
	pb "github.com/weirgpu/weir/server/oip/inferencepb"
	"github.com/weirgpu/weir/server/rpc"
	"github.com/weirgpu/weir/server/traffic"
	"github.com/weirgpu/weir/tensor"
)

// world is a server, echoes, and who asks them.
type world struct {
	model traffic.Ask // in this process
	ways  []way
	slow  traffic.Ask // with a deadline
	alone traffic.Ask // without one
	ends  []func()
}

// way is a transport.
type way struct {
	name        string
	echo, infer traffic.Ask
}

// service is how long the model of the overload takes, and within is its deadline.
const (
	service = 5 * time.Millisecond
	within  = 5 * service
)

func (w *world) end() {
	for i := len(w.ends) - 1; i >= 0; i-- {
		w.ends[i]()
	}
}

// begin serves the digits, and a model that takes its time without a core, so that the overload is
// that of the server and not of who asks.
func begin() (_ *world, err error) {
	w := &world{}
	defer func() {
		if err != nil {
			w.end()
		}
	}()
	log := slog.New(slog.DiscardHandler)
	s, err := server.New(server.Options{Log: log})
	if err != nil {
		return nil, err
	}
	w.ends = append(w.ends, func() { _ = s.Close() })
	digit := func() (*weir.Model, error) { return weir.Load(digits.Model) }
	err = s.LoadAll(context.Background(), []server.Source{{Name: "digits", Version: 1,
		Open: digit}, {Name: "slow", Version: 1, Open: slow}})
	if err != nil {
		return nil, err
	}
	picture := tensor.From(make([]float32, 64), 1, 1, 8, 8)
	m, err := digit()
	if err != nil {
		return nil, err
	}
	w.ends = append(w.ends, func() { _ = m.Close() })
	w.model = func(ctx context.Context) error {
		out, err := m.Run(ctx, weir.Inputs{"image": picture})
		if err == nil {
			out.Close()
		}
		return err
	}
	request := &oip.Request{Inputs: []oip.Input{{Name: "image", Tensor: picture}}}
	if err := w.overHTTP(s, request, log); err != nil {
		return nil, err
	}
	return w, w.overGRPC(s, request, log)
}

// slow makes a model whose one step takes time and no core, for one request at a time.
func slow() (*weir.Model, error) {
	g, err := graph.Parse(`graph "slow" {
  opset "" 17
  opset "bench" 1
  input %x: float32[1]
  %y: float32[1] = bench:Wait@1 (%x)
  output %y
}`)
	if err != nil {
		return nil, err
	}
	var file bytes.Buffer
	if err := onnx.Write(&file, g, onnx.WriteOptions{}); err != nil {
		return nil, err
	}
	return weir.Load(file.Bytes(), weir.WithOperators(weir.Operator{Domain: "bench", Name: "Wait",
		Inputs: 1, Random: true, Eval: func(c *op.Eval) error {
			time.Sleep(service)
			y, err := c.Output(0, tensor.Float32, c.In[0].Shape)
			if err == nil {
				copy(y.Data, c.In[0].Data)
			}
			return err
		}}))
}

// listen serves on a port of loopback.
func (w *world) listen(serve func(net.Listener) error) (string, error) {
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() { _ = serve(on) }()
	w.ends = append(w.ends, func() { _ = on.Close() })
	return "http://" + on.Addr().String(), nil
}

func (w *world) overHTTP(s *server.Server, r *oip.Request, log *slog.Logger) error {
	h := server.HTTP(s, log)
	at, err := w.listen(func(on net.Listener) error { return s.Serve(on, h) })
	if err != nil {
		return err
	}
	answer := make([]byte, 200)
	echo, err := w.listen((&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(answer)
	})}).Serve)
	if err != nil {
		return err
	}
	p, err := client.Prepare("digits", "", r)
	if err != nil {
		return err
	}
	asks := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000,
		DisableCompression: true}}
	ask := func(at string, p *client.Prepared) traffic.Ask {
		c := &client.Client{URL: at, HTTP: asks}
		return func(ctx context.Context) error { return c.Send(ctx, p) }
	}
	w.ways = append(w.ways, way{"HTTP", ask(echo, p), ask(at, p)})
	few := &oip.Request{Inputs: []oip.Input{{Name: "x", Tensor: tensor.From([]float32{1}, 1)}}}
	free, err := client.Prepare("slow", "", few)
	if err != nil {
		return err
	}
	few.Parameters = oip.Parameters{"timeout": within.Microseconds()}
	bound, err := client.Prepare("slow", "", few)
	w.alone, w.slow = ask(at, free), ask(at, bound)
	return err
}

func (w *world) overGRPC(s *server.Server, r *oip.Request, log *slog.Logger) error {
	calls := rpc.New(rpc.Options{Server: s, Log: log})
	w.ends = append(w.ends, calls.Close)
	at, err := w.listen(calls.Serve)
	if err != nil {
		return err
	}
	echo, err := w.nothing()
	if err != nil {
		return err
	}
	p, err := client.PrepareCall("digits", "", r)
	if err != nil {
		return err
	}
	e, err := w.calls(echo, p)
	i, err2 := w.calls(at, p)
	w.ways = append(w.ways, way{"gRPC", e, i})
	return errors.Join(err, err2)
}

// nothing serves an empty answer to each call, over gRPC.
func (w *world) nothing() (at string, err error) {
	s := grpc.NewServer(grpc.UnknownServiceHandler(
		func(_ any, stream grpc.ServerStream) error {
			m := &pb.ModelInferRequest{}
			if err := stream.RecvMsg(m); err != nil {
				return err
			}
			return stream.SendMsg(&pb.ModelInferResponse{})
		}))
	w.ends = append(w.ends, s.Stop)
	return w.listen(s.Serve)
}

// calls returns how the server at an address is asked over gRPC.
func (w *world) calls(at string, p *client.PreparedCall) (traffic.Ask, error) {
	c, err := client.Dial(context.Background(), at, "", nil)
	if err != nil {
		return nil, err
	}
	w.ends = append(w.ends, c.Close)
	return func(ctx context.Context) error { return c.Send(ctx, p) }, nil
}

// overload asks for twice what can be done.
func (w *world) overload(length time.Duration) (o overload, err error) {
	one, err := run(traffic.Plan{Clients: 1, Duration: length / 6, Timeout: time.Minute}, w.alone)
	if err != nil {
		return o, err
	}
	o.ServiceMS = 1e3 / one.PerSecond
	res, err := run(traffic.Plan{Rate: 2 * one.PerSecond, Clients: 1000, Duration: length,
		Timeout: time.Minute, Deadline: within, Seed: 1}, w.slow)
	if err == nil {
		o.Result = *res
	}
	return o, err
}

// judge holds what came of the overload against what is promised.
func (r *results) judge(o *overload) {
	res := &o.Result
	r.Claims.Check("2x overload: goodput, of what can be done", res.Goodput*o.ServiceMS/1e3, 0.9,
		false)
	r.Claims.Check("2x overload: of what was answered, in time", float64(res.InTime)/
		float64(max(res.Answered, 1)), 0.999, false)
	r.Claims.Check("2x overload: a refusal's p99, ms", res.Refusal.P99, 2, true)
}
