package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/client"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/rpc"
	"github.com/weirgpu/weir/tensor"
)

// site is a server that answers over HTTP and gRPC, and a request for it by one of them.
type site struct {
	server *server.Server
	http   *http.Server
	rpc    *rpc.Server
	send   func(context.Context) error
	hangUp func() // ends the client's connections
}

// source is a version of the digits, with a mark, as those of a folder have one.
func source(version int64) server.Source {
	return server.Source{Name: "digits", Version: version, Mark: fmt.Sprint("version ", version),
		Open: func() (*weir.Model, error) { return weir.Load(digits.Model) }}
}

// heavy is a model that computes for some milliseconds.
func heavy() (*weir.Model, error) {
	g, err := graph.Parse(`graph "heavy" {
	  opset "" 17
	  input %x: float32[320,1]
	  %t: float32[1,320] = Transpose@13 (%x) {perm=[1,0]}
	  %a: float32[320,320] = MatMul@13 (%x, %t)
	  %b: float32[320,320] = MatMul@13 (%a, %a)
	  %c: float32[320,320] = MatMul@13 (%b, %a)
	  %d: float32[320,320] = MatMul@13 (%c, %a)
	  %e: float32[320,320] = MatMul@13 (%d, %a)
	  %f: float32[320,320] = MatMul@13 (%e, %a)
	  %y: float32[320,1] = MatMul@13 (%f, %x)
	  output %y
	}`)
	if err != nil {
		return nil, err
	}
	var file bytes.Buffer
	if err := onnx.Write(&file, g, onnx.WriteOptions{}); err != nil {
		return nil, err
	}
	return weir.Load(file.Bytes())
}

// open begins a server with one model, digits or heavy, which is asked over HTTP or gRPC.
func open(from server.Catalogue, over string, src server.Source) (*site, error) {
	log := slog.New(slog.DiscardHandler)
	s, err := server.New(server.Options{Catalogue: from, Log: log})
	if err != nil {
		return nil, err
	}
	x := &site{server: s, http: server.HTTP(s, log), rpc: rpc.New(rpc.Options{Server: s,
		Log: log})}
	request := &oip.Request{Inputs: []oip.Input{{Name: "image",
		Tensor: tensor.From(make([]float32, 64), 1, 1, 8, 8)}}}
	if src.Name == "heavy" {
		request = &oip.Request{Inputs: []oip.Input{{Name: "x",
			Tensor: tensor.From(make([]float32, 320), 320, 1)}},
			Parameters: oip.Parameters{"timeout": within.Microseconds()}}
	}
	if err := x.begin(over, src, request); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return x, nil
}

// begin serves a model, and prepares a request for it.
func (x *site) begin(over string, src server.Source, request *oip.Request) error {
	if err := x.server.LoadAll(context.Background(), []server.Source{src}); err != nil {
		return err
	}
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if over == "grpc" {
		go func() { _ = x.rpc.Serve(on) }()
		c, err := client.Dial(context.Background(), "grpc://"+on.Addr().String(), "", nil)
		if err != nil {
			return err
		}
		p, err := client.PrepareCall(src.Name, "", request)
		x.send = func(ctx context.Context) error { return c.Send(ctx, p) }
		x.hangUp = c.Close
		return err
	}
	go func() { _ = x.server.Serve(on, x.http) }()
	h := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	c := &client.Client{URL: "http://" + on.Addr().String(), HTTP: h}
	p, err := client.Prepare(src.Name, "", request)
	x.send = func(ctx context.Context) error { return c.Send(ctx, p) }
	x.hangUp = h.CloseIdleConnections
	return err
}

// close stops the server as weir up does.
func (x *site) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	x.server.Retire()
	calls := make(chan error, 1)
	go func() { calls <- x.rpc.Drain(ctx) }()
	err := x.server.Drain(ctx)
	err = errors.Join(err, x.http.Shutdown(ctx), <-calls)
	x.rpc.Close()
	return err
}

// load is what clients that ask one request after another came to.
type load struct {
	mu     sync.Mutex
	took   []time.Duration
	errors map[string]int
	stop   chan struct{}
	done   sync.WaitGroup
}

func (x *site) load(clients int) *load {
	l := &load{errors: map[string]int{}, stop: make(chan struct{})}
	for range clients {
		l.done.Go(func() {
			for {
				select {
				case <-l.stop:
					return
				default:
				}
				began := time.Now()
				err := x.send(context.Background())
				l.count(time.Since(began), err)
				if err != nil {
					time.Sleep(time.Millisecond) // a server that has gone is not asked without end
				}
			}
		})
	}
	return l
}

func (l *load) count(took time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.errors[client.Kind(err)]++
		return
	}
	l.took = append(l.took, took)
}

func (l *load) end() {
	close(l.stop)
	l.done.Wait()
}
