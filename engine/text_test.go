package engine

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
)

// TestTextIsCharged reserves strings that operators make, headers and letters, while an iteration
// runs, and no longer.
func TestTextIsCharged(t *testing.T) {
	b := newBench(t)
	g, err := graph.Parse(`graph "double" {
		opset "" 20
		input %x: string[2]
		%y: string[2] = StringConcat@20 (%x, %x)
		%z: string[2] = StringConcat@20 (%y, %y)
		output %z
	}`)
	if err != nil {
		t.Fatal(err)
	}
	i := take(t, b.load(t, compiled(t, g, nil)))
	defer i.Put()
	still := b.quota.sum()
	run := func() error {
		b.quota.most = still
		if err := i.Inputs()[0].Set(tensor.FromStrings([]string{"abc", "de"}, 2)); err != nil {
			t.Fatal(err)
		}
		return i.Run(context.Background(), device.Open)
	}
	if err := run(); err != nil {
		t.Fatal(err)
	}
	const bytes = 2*2*16 + 10 + 20
	if got := b.quota.most - still; got != bytes || b.quota.sum() != still {
		t.Errorf("%d bytes at most, %d left; want %d and 0", got, b.quota.sum()-still, bytes)
	}
	if got := i.Outputs()[0].Strings; got[0] != "abcabcabcabc" || got[1] != "dededede" {
		t.Errorf("got %q", got)
	}
	b.quota.cap = still + bytes - 1
	if err := run(); !errors.Is(err, errQuota) || b.quota.sum() != still {
		t.Errorf("a byte less: %v, %d bytes left", err, b.quota.sum()-still)
	}
}

// TestDoublingTextEnds refuses a loop that doubles a string before the machine has no memory left.
func TestDoublingTextEnds(t *testing.T) {
	b := newBench(t)
	g, err := graph.Parse(`graph "loop" {
		opset "" 20
		input %x: string[1]
		const %m: int64[] = {60}
		%y: string[1] = Loop@20 (%m, _, %x) {body=graph "body" {
			input %i: int64[]
			input %c: bool[]
			input %v: string[1]
			%w: string[1] = StringConcat@20 (%v, %v)
			output %c
			output %w
		}}
		output %y
	}`)
	if err != nil {
		t.Fatal(err)
	}
	i := take(t, b.load(t, compiled(t, g, nil)))
	defer i.Put()
	still := b.quota.sum()
	b.quota.cap = still + 1<<20
	if err := i.Inputs()[0].Set(
		tensor.FromStrings([]string{strings.Repeat("x", 1000)}, 1),
	); err != nil {
		t.Fatal(err)
	}
	if err := i.Run(context.Background(), device.Open); !errors.Is(err, errQuota) {
		t.Errorf("2^60 times 1000 letters: %v", err)
	}
	if b.quota.sum() != still {
		t.Errorf("%d bytes are left over", b.quota.sum()-still)
	}
}
