package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	lib "github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/op"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/client"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/training"
	"github.com/weirgpu/weir/tensor"
)

// sigterm is the context of a command that SIGTERM has ended.
func sigterm(t *testing.T) context.Context {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(t.Context()))
	cancel(&stopped{syscall.SIGTERM})
	return ctx
}

// serving is what weir up runs, with models of the test's.
func serving(t *testing.T, sources []server.Source, args ...string) *service {
	t.Helper()
	s := opened(t, io.Discard, args...)
	s.serve()
	if err := s.server.LoadAll(t.Context(), sources); err != nil {
		t.Fatal(err)
	}
	s.jobs.begin()
	return s
}

// opened is what weir up runs, before it answers.
func opened(t *testing.T, talk io.Writer, args ...string) *service {
	t.Helper()
	f, c := &upFlags{}, &cobra.Command{}
	f.define(c)
	c.SetContext(t.Context())
	c.SetErr(talk)
	args = append([]string{"--http", "localhost:0", "--grpc", "localhost:0", "--metrics",
		"localhost:0"}, args...)
	if err := errors.Join(c.ParseFlags(args), f.file.set(c)); err != nil {
		t.Fatal(err)
	}
	s := &service{flags: f, ended: make(chan error, 1)}
	if err := s.open(c); err != nil {
		t.Fatal(errors.Join(err, s.abandon()))
	}
	return s
}

// digitsOnce are the digits as a source.
func digitsOnce() server.Source {
	return server.Source{Name: "digits", Version: 1, Open: func() (*lib.Model, error) {
		return lib.Load(digits.Model)
	}}
}

// heldModel is a model whose runs, but for the first, say so and wait.
func heldModel(entered chan<- struct{}, leave <-chan struct{}) server.Source {
	var warm atomic.Bool
	o := lib.Operator{Domain: "test", Name: "Hold", Inputs: 1, Random: true,
		Eval: func(c *op.Eval) error {
			if warm.Swap(true) {
				entered <- struct{}{}
				<-leave
			}
			y, err := c.Output(0, tensor.Float32, c.In[0].Shape)
			if err == nil {
				copy(y.Data, c.In[0].Data)
			}
			return err
		}}
	return server.Source{Name: "held", Version: 1, Open: func() (*lib.Model, error) {
		g, err := graph.Parse(`graph "held" {
		  opset "" 17
		  opset "test" 1
		  input %x: float32[1]
		  %y: float32[1] = test:Hold@1 (%x)
		  output %y
		}`)
		if err != nil {
			return nil, err
		}
		var file bytes.Buffer
		if err := onnx.Write(&file, g, onnx.WriteOptions{}); err != nil {
			return nil, err
		}
		return lib.Load(file.Bytes(), lib.WithOperators(o))
	}}
}

// inferred asks for an inference, and says what came of it: the status, or the kind of the error.
func inferred(address, model, body string) string {
	r, err := http.Post("http://"+address+"/v2/models/"+model+"/infer", "",
		strings.NewReader(body))
	if err != nil {
		return client.Kind(err)
	}
	_ = r.Body.Close()
	return r.Status
}

// awaited waits until something is so.
func awaited(t *testing.T, what string, is func() bool) {
	t.Helper()
	for late := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal(what, ": it does not come to that")
		}
	}
}

const heldBody = `{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[4]}]}`

// TestStopOrder: after SIGTERM a server is not ready and takes requests, for the time of grace;
// then it refuses further ones, ends trainings beside those that it took, and answers these, on
// ports of their own and on one. Metrics can be read, and pages are told that it ends, until then.
func TestStopOrder(t *testing.T) {
	before := jobLimit
	jobLimit = 50 * time.Millisecond // the device is held, which a checkpoint needs
	defer func() { jobLimit = before }()
	one := freePort(t)
	for name, args := range map[string][]string{"two ports": nil,
		"one port": {"--http", one, "--grpc", one}} {
		t.Run(name, func(t *testing.T) { stopInOrder(t, args) })
	}
}

func stopInOrder(t *testing.T, args []string) {
	recipe := trainFolder(t, "steps: 40", "steps: 1000000")
	entered, leave := make(chan struct{}, 9), make(chan struct{})
	s := serving(t, []server.Source{digitsOnce(), heldModel(entered, leave)},
		append(args, "--train", recipe, "--grace", "1h")...)
	at := s.where()
	training := func() training.State { return s.jobs.trained.List()[0] }
	awaited(t, "a training that runs", func() bool { return training().Phase == "running" })
	asked(t, "POST", "http://"+at.http+"/v1/train/"+training().Name+"/pause", "")
	awaited(t, "a training that is paused", func() bool { return training().Phase == "paused" })

	answers := make(chan string, 2)
	go func() { answers <- inferred(at.http, "held", heldBody) }()
	<-entered
	calls, err := client.Dial(t.Context(), "grpc://"+at.grpc, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer calls.Close()
	call, err := client.PrepareCall("held", "", &oip.Request{Inputs: []oip.Input{{Name: "x",
		Tensor: tensor.From([]float32{4}, 1)}}})
	if err != nil {
		t.Fatal(err)
	}
	go func() { answers <- "call " + errorText(calls.Send(t.Context(), call)) }()
	awaited(t, "a call that waits", func() bool {
		return strings.Contains(read(t, "http://"+at.metrics+"/metrics"),
			`weir_queue_length{model="held",version="1"} 1`)
	})

	graced, on := make(chan struct{}), make(chan struct{})
	s.rest = func(d time.Duration) {
		if d != time.Hour {
			t.Errorf("a time of grace of %v", d)
		}
		close(graced)
		<-on
	}
	ended := make(chan error, 1)
	go func() { ended <- s.stop(sigterm(t)) }()
	<-graced
	if got := asked(t, "GET", "http://"+at.http+"/v2/health/ready", ""); got != 503 {
		t.Errorf("ready after SIGTERM: %d", got)
	}
	if got := inferred(at.http, "none", heldBody); got != "404 Not Found" {
		t.Errorf("a request in the time of grace: %s", got)
	}
	awaited(t, "a training that has ended beside requests", func() bool {
		return training().Phase == "waiting" && strings.Contains(training().Reason, "stopped")
	})
	close(on)
	awaited(t, "a request that is refused", func() bool {
		return inferred(at.http, "digits", "{}") == "503 Service Unavailable"
	})
	if got := asked(t, "GET", "http://"+at.metrics+"/metrics", ""); got != 200 {
		t.Errorf("metrics before all is answered: %d", got)
	}
	select {
	case err := <-ended:
		t.Fatalf("it ended with requests that it took: %v", err)
	default:
	}
	close(leave)
	for range 2 {
		if got := <-answers; got != "200 OK" && got != "call " {
			t.Errorf("a request that was taken: %s", got)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for _, address := range []string{at.http, at.grpc, at.metrics} {
		if c, err := net.Dial("tcp", address); err == nil {
			_ = c.Close()
			t.Errorf("%s answers after the end", address)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestStopsUnderLoad stops servers that are asked over HTTP and gRPC, on ports of their own and on
// one, by turns: what they answered is what clients got. With WEIR_LONG there are 1,000.
func TestStopsUnderLoad(t *testing.T) {
	stops, total := 6, 0
	if os.Getenv("WEIR_LONG") != "" {
		stops = 1000
	}
	refused := map[string]int{}
	for i := range stops {
		var args []string
		if i%2 == 1 {
			one := freePort(t)
			args = []string{"--http", one, "--grpc", one}
		}
		s := serving(t, []server.Source{digitsOnce()}, append(args, "--grace", "0s")...)
		l := clientsOf(t, s.where())
		time.Sleep(10*time.Millisecond + rand.N(20*time.Millisecond))
		if err := s.stop(sigterm(t)); err != nil {
			t.Errorf("stop %d: %v", i, err)
		}
		l.end()
		all, failed := s.server.Recorder().Answered("digits")
		if got := l.received.Load(); got != int64(all-failed) {
			t.Errorf("stop %d: %d requests were answered, and %d answers came", i, all-failed, got)
		}
		total += int(l.received.Load())
		for kind, n := range l.refused {
			refused[kind] += n
		}
	}
	t.Logf("%d stops, %d answers; requests that came too late: %v", stops, total, refused)
	if total == 0 {
		t.Error("nothing was answered")
	}
}

// crowdOf is clients that ask one request after another.
type crowdOf struct {
	received atomic.Int64
	over     chan struct{}
	done     sync.WaitGroup
	mu       sync.Mutex
	refused  map[string]int
}

func clientsOf(t *testing.T, at endpoints) *crowdOf {
	t.Helper()
	l := &crowdOf{over: make(chan struct{}), refused: map[string]int{}}
	r := &oip.Request{Inputs: []oip.Input{{Name: "image",
		Tensor: tensor.From(make([]float32, 64), 1, 1, 8, 8)}}}
	p, err := client.Prepare("digits", "", r)
	if err != nil {
		t.Fatal(err)
	}
	call, err := client.PrepareCall("digits", "", r)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		h := &http.Client{Transport: &http.Transport{}}
		c := &client.Client{URL: "http://" + at.http, HTTP: h}
		l.ask(func() error { return c.Send(t.Context(), p) }, h.CloseIdleConnections)
		calls, err := client.Dial(t.Context(), "grpc://"+at.grpc, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		l.ask(func() error { return calls.Send(t.Context(), call) }, calls.Close)
	}
	return l
}

// ask has one client more.
func (l *crowdOf) ask(send func() error, hangUp func()) {
	l.done.Go(func() {
		defer hangUp()
		for {
			select {
			case <-l.over:
				return
			default:
			}
			err := send()
			if err == nil {
				l.received.Add(1)
				continue
			}
			l.mu.Lock()
			l.refused[client.Kind(err)]++
			l.mu.Unlock()
			time.Sleep(time.Millisecond)
		}
	})
}

func (l *crowdOf) end() {
	close(l.over)
	l.done.Wait()
}
