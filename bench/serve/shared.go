package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/client"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/rpc"
	"github.com/weirgpu/weir/server/shm"
	"github.com/weirgpu/weir/server/traffic"
	"github.com/weirgpu/weir/tensor"
)

// lending is what a request with a picture of 600 KB costs beside the model itself, sent over gRPC
// and lent as shared memory.
type lending struct {
	Model traffic.Times `json:"model_ms"`
	Sent  traffic.Times `json:"sent_ms"`
	Lent  traffic.Times `json:"lent_ms"`
}

// picture is the shape of one.
var picture = []int{1, 3, 224, 224}

// lend measures both, in turn.
func (r *results) lend(rounds int, length time.Duration) error {
	var w world
	defer w.end()
	model, sent, lent, err := w.lender()
	if err != nil {
		return err
	}
	plan := traffic.Plan{Clients: 1, Duration: length / 2, Timeout: time.Minute}
	for range rounds {
		var l lending
		for _, part := range []struct {
			ask traffic.Ask
			to  *traffic.Times
		}{{model, &l.Model}, {sent, &l.Sent}, {lent, &l.Lent}} {
			res, err := run(plan, part.ask)
			if err != nil {
				return err
			}
			*part.to = res.Latency
		}
		r.Lending = append(r.Lending, l)
		r.Claims.Check("600 KB lent as shared memory: added to the model, p50, of what gRPC adds",
			(l.Lent.P50-l.Model.P50)/(l.Sent.P50-l.Model.P50), 0.5, true)
	}
	return nil
}

// lender serves a model that looks at all of a picture, and returns how it is asked: in this
// process, with the picture in the request, and with one that is lent.
func (w *world) lender() (model, sent, lent traffic.Ask, err error) {
	file, err := glance()
	if err != nil {
		return nil, nil, nil, err
	}
	log := slog.New(slog.DiscardHandler)
	key := fmt.Sprintf("/weir-bench-%d", os.Getpid())
	s, err := server.New(server.Options{Log: log, Memory: key})
	if err != nil {
		return nil, nil, nil, err
	}
	w.ends = append(w.ends, func() { _ = s.Close() })
	if err := s.LoadAll(context.Background(), []server.Source{{Name: "glance", Version: 1,
		Open: func() (*weir.Model, error) { return weir.Load(file) }}}); err != nil {
		return nil, nil, nil, err
	}
	x := tensor.From(make([]float32, 3*224*224), picture...)
	path := filepath.Join("/dev/shm", key)
	w.ends = append(w.ends, func() { _ = os.Remove(path) })
	if err := os.WriteFile(path, x.Data, 0o600); err != nil {
		return nil, nil, nil, err
	}
	if err := s.RegisterMemory(context.Background(), shm.Info{Name: "picture", Key: key,
		Size: int64(len(x.Data))}); err != nil {
		return nil, nil, nil, err
	}
	m, err := weir.Load(file)
	if err != nil {
		return nil, nil, nil, err
	}
	w.ends = append(w.ends, func() { _ = m.Close() })
	model = func(ctx context.Context) error {
		out, err := m.Run(ctx, weir.Inputs{"x": x})
		if err == nil {
			out.Close()
		}
		return err
	}
	sent, lent, err = w.callers(s, log, x)
	return model, sent, lent, err
}

// callers ask over gRPC, with a picture and with one that is lent.
func (w *world) callers(s *server.Server, log *slog.Logger, x *tensor.Tensor) (sent,
	lent traffic.Ask, err error) {
	calls := rpc.New(rpc.Options{Server: s, Log: log})
	w.ends = append(w.ends, calls.Close)
	at, err := w.listen(calls.Serve)
	if err != nil {
		return nil, nil, err
	}
	c, err := client.Dial(context.Background(), at, "", nil)
	if err != nil {
		return nil, nil, err
	}
	w.ends = append(w.ends, c.Close)
	ask := func(in oip.Input) (traffic.Ask, error) {
		p, err := client.PrepareCall("glance", "", &oip.Request{Inputs: []oip.Input{in}})
		return func(ctx context.Context) error { return c.Send(ctx, p) }, err
	}
	if sent, err = ask(oip.Input{Name: "x", Tensor: x}); err != nil {
		return nil, nil, err
	}
	lent, err = ask(oip.Input{Name: "x", Tensor: &tensor.Tensor{DType: x.DType, Shape: x.Shape},
		Region: &oip.Region{Name: "picture", Size: int64(len(x.Data))}})
	return sent, lent, err
}

// glance is a model that looks at all of its input, and answers with one number.
func glance() ([]byte, error) {
	g, err := graph.Parse(`graph "glance" {
  opset "" 13
  input %x: float32[1,3,224,224]
  %y: float32[] = ReduceMax@13 (%x) {keepdims=0}
  output %y
}`)
	if err != nil {
		return nil, err
	}
	var file bytes.Buffer
	err = onnx.Write(&file, g, onnx.WriteOptions{})
	return file.Bytes(), err
}
