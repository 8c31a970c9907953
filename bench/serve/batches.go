package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/client"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/rpc"
	"github.com/weirgpu/weir/server/traffic"
	"github.com/weirgpu/weir/tensor"
)

// batching is what putting requests together gains, and what it costs a client that is alone.
type batching struct {
	Offline float64       `json:"offline_rows_per_s"` // of the best size of batches, in process
	Size    int           `json:"offline_size"`
	Served  float64       `json:"served_rows_per_s"` // of clients that ask for a row each
	Echo    float64       `json:"echo_rows_per_s"`   // of the same who ask for an empty answer
	Alone   traffic.Times `json:"alone_ms"`          // of one client
	Without traffic.Times `json:"alone_unbatched_ms"`
}

// width and layers are the size of a model whose weights, 67 MB, are read once for a batch. A crowd
// of clients fills its batches.
const (
	width  = 2048
	layers = 4
	crowd  = 64
)

// together measures batches, in turn with a server that makes none.
func (r *results) together(rounds int, length time.Duration) error {
	file, err := layered()
	if err != nil {
		return err
	}
	for range rounds {
		var b batching
		if err := b.offline(file, length/2); err != nil {
			return err
		}
		if err := b.served(file, length); err != nil {
			return err
		}
		r.Batching = append(r.Batching, b)
		r.Claims.Check("batches: rows a second, of the best offline", b.Served/b.Offline, 0.9,
			false)
		// who asks and what carries it take their part of the same cores
		r.Claims.Check("batches: rows a second, of what an echo and the best offline allow",
			b.Served*(1/b.Echo+1/b.Offline), 0.9, false)
		r.Claims.Check("batches: p50 of a client that is alone, of that without batches",
			b.Alone.P50/b.Without.P50, 1.02, true)
	}
	return nil
}

// offline finds the best size of batches.
func (b *batching) offline(file []byte, length time.Duration) error {
	m, err := weir.Load(file)
	if err != nil {
		return err
	}
	defer m.Close()
	for _, n := range []int{8, 16, 32} {
		in := weir.Inputs{"x": tensor.From(make([]float32, n*width), n, width)}
		ask := func(ctx context.Context) error {
			out, err := m.Run(ctx, in)
			if err == nil {
				out.Close()
			}
			return err
		}
		if err := ask(context.Background()); err != nil {
			return err
		}
		res, err := run(traffic.Plan{Clients: 1, Duration: length, Timeout: time.Minute}, ask)
		if err != nil {
			return err
		}
		if rate := res.PerSecond * float64(n); rate > b.Offline {
			b.Offline, b.Size = rate, n
		}
	}
	return nil
}

// served asks an echo, a server that puts requests together, and then one that does not.
func (b *batching) served(file []byte, length time.Duration) error {
	if err := b.echo(length); err != nil {
		return err
	}
	for _, most := range []int{server.DefaultBatch, 1} {
		w := &world{}
		ask, err := w.layers(file, most)
		if err == nil {
			err = b.ask(ask, most, length)
		}
		w.end()
		if err != nil {
			return err
		}
	}
	return nil
}

// echo asks who does nothing for the same rows.
func (b *batching) echo(length time.Duration) error {
	w := &world{}
	defer w.end()
	at, err := w.nothing()
	if err != nil {
		return err
	}
	ask, err := w.row(at)
	if err != nil {
		return err
	}
	all, err := run(traffic.Plan{Clients: crowd, Duration: length, Timeout: time.Minute}, ask)
	if err == nil {
		b.Echo = all.PerSecond
	}
	return err
}

func (b *batching) ask(ask traffic.Ask, most int, length time.Duration) error {
	one, err := run(traffic.Plan{Clients: 1, Duration: length, Timeout: time.Minute}, ask)
	if err != nil || most == 1 {
		b.Without = one.Latency
		return err
	}
	b.Alone = one.Latency
	all, err := run(traffic.Plan{Clients: crowd, Duration: 2 * length, Timeout: time.Minute}, ask)
	if err == nil {
		b.Served = all.PerSecond
	}
	return err
}

// layers serves the model over gRPC, and returns how it is asked for a row.
func (w *world) layers(file []byte, most int) (traffic.Ask, error) {
	log := slog.New(slog.DiscardHandler)
	s, err := server.New(server.Options{Log: log, Batch: most})
	if err != nil {
		return nil, err
	}
	w.ends = append(w.ends, func() { _ = s.Close() })
	if err := s.LoadAll(context.Background(), []server.Source{{Name: "layers", Version: 1,
		Open: func() (*weir.Model, error) { return weir.Load(file) }}}); err != nil {
		return nil, err
	}
	if err := learned(s, "layers"); err != nil {
		return nil, err
	}
	calls := rpc.New(rpc.Options{Server: s, Log: log})
	w.ends = append(w.ends, calls.Close)
	at, err := w.listen(calls.Serve)
	if err != nil {
		return nil, err
	}
	return w.row(at)
}

// row asks a server for a row.
func (w *world) row(at string) (traffic.Ask, error) {
	p, err := client.PrepareCall("layers", "", &oip.Request{Inputs: []oip.Input{{Name: "x",
		Tensor: tensor.From(make([]float32, width), 1, width)}}})
	if err != nil {
		return nil, err
	}
	return w.calls(at, p)
}

// learned waits until a server knows how it puts the requests of a model together.
func learned(s *server.Server, model string) error {
	for range 600 {
		c, err := s.Config(model, "")
		if err != nil {
			return err
		}
		if c.Parameters["batching"].StringValue != "" {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return errors.New("how requests are put together is not known after a minute")
}

// layered is a model whose rows are independent, and quicker together.
func layered() ([]byte, error) {
	var text strings.Builder
	fmt.Fprintf(&text, "graph \"layers\" {\n  opset \"\" 17\n  input %%x: float32[N,%d]\n", width)
	for i := range layers {
		fmt.Fprintf(&text, "  const %%w%d: float32[%d,%d] = at %d\n", i, width, width, i)
	}
	from := "x"
	for i := range layers {
		fmt.Fprintf(&text, "  %%p%d: float32[N,%d] = MatMul@13 (%%%s, %%w%d)\n", i, width, from, i)
		fmt.Fprintf(&text, "  %%r%d: float32[N,%d] = Relu@14 (%%p%d)\n", i, width, i)
		from = fmt.Sprintf("r%d", i)
	}
	fmt.Fprintf(&text, "  %%y: float32[N,1] = ReduceMax@13 (%%%s) {axes=[1], keepdims=1}\n"+
		"  output %%y\n}", from)
	g, err := graph.ParseExternal(text.String(), func(d tensor.DType, shape []int, at int64) (
		*tensor.Tensor, error) {
		x, err := tensor.New(d, shape...)
		if err != nil {
			return nil, err
		}
		for i, all := 0, tensor.As[float32](x); i < len(all); i++ {
			all[i] = float32((i*7+int(at)*13)%17-8) / width
		}
		return x, nil
	})
	if err != nil {
		return nil, err
	}
	var file bytes.Buffer
	err = onnx.Write(&file, g, onnx.WriteOptions{})
	return file.Bytes(), err
}
