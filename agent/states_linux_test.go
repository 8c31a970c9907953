package agent

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
)

// TestEveryMessageInEveryState sends each message there is, with and without descriptors, to an
// agent that expects another: as a fresh peer, a process, a controller, a viewer and one that left.
func TestEveryMessageInEveryState(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	a := startAgent(t, testConfig(dir, s))
	_, g := controller(t, dir, modest)
	good := begin(t, s, dir, g.Token)
	hello := wire.Hello{Token: g.Token, Version: wire.Version, Slot: wire.NoSlot}
	create := wire.Create{Token: g.Token, Version: wire.Version, Memory: 1}
	states := map[string][]wire.Message{
		"fresh":      nil,
		"process":    {wire.NewHello(hello, 0)},
		"left":       {wire.NewHello(hello, 0), wire.NewSignal(wire.KindBye, 1, 0)},
		"controller": {wire.NewCreate(create, wire.FlagFake)},
		"viewer":     {wire.NewTop(wire.Top{IntervalMS: 1})},
	}
	messages := []wire.Message{
		wire.NewHello(hello, 0), wire.NewHello(hello, wire.FlagRejoin), wire.NewTop(wire.Top{}),
		wire.NewCreate(create, wire.FlagFake),
		wire.NewCreate(create, wire.FlagFake|wire.FlagRejoin), wire.NewNote(1, "cuNone"),
		wire.NewWelcome(wire.Welcome{}, 0), wire.NewRefused(wire.Refused{}),
		wire.NewCreated(wire.Created{}, 0), wire.NewSnapshot(wire.Snapshot{}, 0),
		wire.NewSet(wire.Set{Fields: 15, Version: wire.Version}),
		wire.NewPolicy(wire.Policy{Version: wire.Version}), wire.NewDone(wire.Done{}),
	}
	for k := wire.KindWant; k <= wire.KindBye; k++ {
		messages = append(messages, wire.NewSignal(k, 1, 1), wire.NewSignal(k, wire.NoSlot, 0))
	}
	before := descriptors(t)
	for name, first := range states {
		for _, m := range messages {
			for _, rights := range [][]byte{nil, unix.UnixRights(int(g.Page.Fd()), 0)} {
				uc := raw(t, s, dir)
				for _, f := range first {
					_ = writePacket(uc, f.Append(nil), nil)
				}
				_, _, _ = uc.WriteMsgUnix(m.Append(nil), rights, nil)
				_, _, _ = uc.WriteMsgUnix(m.Append(nil), rights, nil)
				_ = uc.Close()
			}
		}
		good.launch(100 * time.Microsecond)
		// The peers' processes live on, as far as the agent knows, and keep their slots.
		s.mu.Lock()
		for _, p := range s.byName {
			if p != good.self {
				p.die()
			}
		}
		s.mu.Unlock()
		eventually(t, "nothing is left of the state "+name, func() bool {
			// One look: what a closed connection still holds may be read between two.
			jobs := a.Snapshot().Devices[0].Jobs
			return len(jobs) == 1 && jobs[0].Name == "modest" && len(jobs[0].Processes) == 1 &&
				descriptors(t) <= before
		})
	}
	for _, j := range a.Snapshot().Devices[0].Jobs {
		if j.Name == "modest" && (j.Class != share.Opportunistic || j.MemoryCapBytes != 1<<30) {
			t.Errorf("the job is %+v", j)
		}
	}
}
