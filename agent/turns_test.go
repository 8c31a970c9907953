package agent

import (
	"testing"
	"time"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
)

// TestReturnsAreConfirmed has a program whose memory is away come to the next agent before the one
// whose memory is on the device: there is no room yet, so that it may not be let in before it says
// that its memory is back.
func TestReturnsAreConfirmed(t *testing.T) {
	const each = 80 << 20
	s, dir := newPeople(), socketDir(t)
	c := testConfig(dir, s)
	c.HostMemory = 200 * share.GiB
	a := startAgent(t, c)
	var programs []*program
	for _, name := range []string{"here", "away"} {
		client, err := Dial(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		g, err := client.Create(JobRequest{Fake: true, Oversubscribe: true,
			Job: share.Job{Name: name, Share: share.Share{Memory: c.Devices[0].Memory / 10 * 9}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = g.Page.Close() })
		p := begin(t, s, dir, g.Token)
		p.s.MovableBytes.Store(each)
		programs = append(programs, p)
	}
	p := programs[1]
	h := p.page.Header()
	if !wire.IsAway(h.Move.Load()) || programs[0].ordered(0) {
		t.Fatal("the second is not away, or the first is")
	}
	p.s.AwayBytes.Store(each)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	startAgent(t, c)
	if err := p.hello(wire.FlagRejoin); err != nil {
		t.Fatal(err)
	}
	order := h.Move.Load()
	launched := make(chan struct{})
	go func() {
		defer close(launched)
		p.launch(time.Millisecond)
	}()
	eventually(t, "it is asked whether its memory is back",
		func() bool { return p.ordered(order) || wire.IsOpen(h.Gate.Load()) })
	if wire.IsOpen(h.Gate.Load()) {
		t.Fatal("its gate is open with its memory away")
	}
	order = h.Move.Load()
	p.mu.Lock()
	err := writePacket(p.uc, wire.NewMoved(wire.Moved{Slot: p.slot, Move: order,
		Code: wire.MovedDevice, Needs: each}).Append(nil), nil)
	p.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	for over := false; !over; {
		select {
		case <-launched:
			over = true
		default:
			if p.ordered(order) {
				order = p.obey(each).Move
			}
			time.Sleep(time.Millisecond)
		}
	}
	if p.s.AwayBytes.Load() != 0 {
		t.Error("it has launched with its memory away")
	}
}
