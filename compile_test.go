package weir_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/tensor"
)

// slow is a model whose compiling goes on for as long as nobody lets it end, and how often it was
// begun.
type slow struct {
	*weir.Model
	begun, ended atomic.Int64
	entered      chan struct{} // one for each compiling that has begun
	release      chan error    // one for each that is to end, and how
}

// newSlow opens such a model, under a share of a host unless that is nil.
func newSlow(t *testing.T, host *weir.Host) *slow {
	s := &slow{entered: make(chan struct{}), release: make(chan error)}
	o := double(new(atomic.Int64))
	o.Kernel = func(*compute.Request) (compute.Kernel, error) {
		s.begun.Add(1)
		s.entered <- struct{}{}
		err := <-s.release
		s.ended.Add(1)
		return nil, err
	}
	options := []weir.Option{weir.WithOperators(o)}
	if host == nil {
		options = append(options, weir.WithThreads(1))
	}
	m, err := weir.Open(modelFile(t, `graph "slow" {
		opset "" 17
		opset "com.example" 1
		input %x: float32[N]
		%y: float32[N] = com.example:Double@1 (%x)
		output %y
	}`), options...)
	if err == nil && host != nil {
		_, err = host.Admit(t.Context(), m,
			weir.Job{Name: "slow", Share: weir.Share{Memory: weir.MiB}})
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Model = m
	return s
}

// run runs the model on n elements.
func (s *slow) run(ctx context.Context, n int) error {
	r, err := s.Run(ctx, weir.Inputs{"x": tensor.From(make([]float32, n), n)})
	r.Close()
	return err
}

// aloneAndShared runs a test with models of their own and with models of a host.
func aloneAndShared(t *testing.T, test func(t *testing.T, host *weir.Host)) {
	t.Run("alone", func(t *testing.T) { test(t, nil) })
	t.Run("shared", func(t *testing.T) {
		host, err := weir.NewHost(weir.HostOptions{Policy: "fifo"})
		if err != nil {
			t.Fatal(err)
		}
		defer host.Close()
		test(t, host)
	})
}

// TestCompilingOutlivesRun holds that a model all of whose calls have short deadlines is compiled:
// a Run returns when its context is done while compiling goes on, which the next one finds.
func TestCompilingOutlivesRun(t *testing.T) { aloneAndShared(t, testCompilingOutlivesRun) }

func testCompilingOutlivesRun(t *testing.T, host *weir.Host) {
	s := newSlow(t, host)
	defer s.Close()
	for i := range 2 { // the second waits for the first one's compiling
		ctx, cancel := context.WithCancel(t.Context())
		late := make(chan error, 1)
		go func() { late <- s.run(ctx, 3) }()
		if i == 0 {
			<-s.entered
		}
		cancel()
		select {
		case err := <-late:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("stopped while compiling: %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("a Run whose context is done waits for compiling to end")
		}
	}
	s.release <- nil
	if err := s.run(t.Context(), 3); err != nil || s.begun.Load() != 1 {
		t.Errorf("compiled %d times: %v", s.begun.Load(), err)
	}
	// one that fails leaves the place to the next
	ctx, cancel := context.WithCancel(t.Context())
	late := make(chan error, 1)
	go func() { late <- s.run(ctx, 4) }()
	<-s.entered
	cancel()
	<-late
	s.release <- errors.New("no kernel")
	again := make(chan error, 1)
	go func() { again <- s.run(t.Context(), 4) }()
	<-s.entered
	s.release <- nil
	if err := <-again; err != nil || s.begun.Load() != 3 {
		t.Errorf("compiled %d times: %v", s.begun.Load(), err)
	}
}

// TestCloseEndsCompiling holds that Close waits for compiling that no Run waits for, and a Run that
// leaves a closed model does, so that nothing of it is left.
func TestCloseEndsCompiling(t *testing.T) { aloneAndShared(t, testCloseEndsCompiling) }

func testCloseEndsCompiling(t *testing.T, host *weir.Host) {
	for _, first := range []string{"the Run leaves", "Close"} {
		s := newSlow(t, host)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		late := make(chan error, 1)
		go func() { late <- s.run(ctx, 3) }()
		<-s.entered
		if first == "Close" {
			if err := s.Close(); err != nil { // which waits for no Run
				t.Error(err)
			}
		}
		cancel()
		go func() { s.release <- nil }()
		if first == "Close" {
			if err := <-late; !errors.Is(err, context.Canceled) {
				t.Errorf("a Run that leaves a closed model: %v", err)
			}
		} else if err := errors.Join(ignore(<-late, context.Canceled), s.Close()); err != nil {
			t.Error(err)
		}
		if s.ended.Load() != 1 {
			t.Errorf("first %s: compiling goes on", first)
		}
	}
}

// ignore is err, nil if it is of a kind.
func ignore(err, kind error) error {
	if errors.Is(err, kind) {
		return nil
	}
	return err
}
