package plan

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/pass"
)

// broken is a kernel that panics when it packs and binds.
type broken struct{ compute.Kernel }

func (broken) Pack([]byte) { panic("a bug of packing") }

func (broken) Bind(compute.Binding) compute.Task { panic("a bug of binding") }

// TestPanicsOnTheCaller holds that a kernel that panics while it packs or binds, on the goroutine
// that asked for it, ends that job with an error.
func TestPanicsOnTheCaller(t *testing.T) {
	p, err := Compile(t.Context(), parse(t, `input %x: float32[8,64]
		const %w: float32[64,2] = {`+zeros(128)+`}
		%y = MatMul@13 (%x, %w)
		output %y`), Options{Target: host, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	if p.PackedBytes == 0 {
		t.Fatal("nothing is packed")
	}
	for i := range p.Steps {
		p.Steps[i].Kernel = broken{p.Steps[i].Kernel}
	}
	packed, arena := make([]byte, p.PackedBytes), make([]byte, p.ArenaBytes)
	if err := p.Pack(packed, PackOptions{}); !errors.Is(err, op.ErrPanic) {
		t.Errorf("packing: %v", err)
	}
	if _, err := p.Bind(arena, packed); !errors.Is(err, op.ErrPanic) {
		t.Errorf("binding: %v", err)
	}
}

// zeros lists n of them.
func zeros(n int) string {
	list := "0"
	for range n - 1 {
		list += ", 0"
	}
	return list
}

// afterFirst is a log that calls a function at its first record.
type afterFirst struct {
	slog.Handler
	call func()
}

func (a afterFirst) Enabled(context.Context, slog.Level) bool { return true }

func (a afterFirst) Handle(context.Context, slog.Record) error { a.call(); return nil }

// TestBodiesAreCancelled ends the context once the passes over the outer graph are done: those over
// the body notice.
func TestBodiesAreCancelled(t *testing.T) {
	g := parse(t, `input %x: float32[4]
		const %n: int64[] = {3}
		const %yes: bool[] = {true}
		%y: float32[4] = Loop@16 "loop" (%n, %yes, %x) {body=graph "body" {
			input %i: int64[]
			input %c: bool[]
			input %s: float32[4]
			%q: float32[4] = Tanh@13 (%s)
			output %c
			output %q
		}}
		output %y`)
	ctx, cancel := context.WithCancel(t.Context())
	log := slog.New(afterFirst{slog.DiscardHandler, cancel})
	_, err := Compile(ctx, g, Options{Threads: 1, Passes: pass.Options{Log: log}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
