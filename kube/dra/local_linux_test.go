package dra

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/share"
)

// realAgent starts an agent of two fake GPUs.
func realAgent(t testing.TB, dir string) *agent.Agent {
	t.Helper()
	a, err := agent.Start(agent.Config{Dir: dir, Door: true, Devices: []agent.Device{
		{Ordinal: 0, Name: "zero", Memory: 80 * share.GiB, Fake: true, UUID: [16]byte{1}},
		{Ordinal: 1, Name: "one", Memory: 80 * share.GiB, Fake: true, UUID: [16]byte{2}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "run")
}

// TestTheAgentKeepsClaims has a real agent keep what a driver prepares, while the driver is killed
// between any two writes and the agent is started again: what it has promised is what claims have.
func TestTheAgentKeepsClaims(t *testing.T) {
	dir := shortDir(t)
	a := realAgent(t, dir)
	r := newRig(t)
	r.c.Agent = Local{dir}
	r.start()
	rng := rand.New(rand.NewPCG(16, 2))
	running := map[string]Claim{}
	for i := range 60 {
		uid := "uid-" + string(rune('a'+rng.IntN(12)))
		device := []string{"cuda-0", "cuda-1"}[uid[len(uid)-1]%2]
		c := claimOf(uid, device, 10*share.GiB, 100)
		call := func(d *Driver) error { _, err := d.Prepare(t.Context(), c); return err }
		if _, runs := running[uid]; runs && rng.IntN(2) == 0 {
			delete(running, uid)
			call = func(d *Driver) error { return d.Unprepare(t.Context(), uid) }
		} else {
			running[uid] = c
		}
		dead, err := r.survive(rng.IntN(14), call)
		if dead { // the kubelet calls again
			if i%5 == 0 {
				_ = a.Close()
				a = realAgent(t, dir)
			}
			err = call(r.d)
		}
		if err != nil {
			t.Fatal(err)
		}
		for n, s := range a.Snapshot().Devices {
			want := int64(0)
			for _, c := range running {
				if c.Results[0].Device == []string{"cuda-0", "cuda-1"}[n] {
					want += int64(10 * share.GiB)
				}
			}
			if s.PromisedBytes != want {
				t.Fatalf("operation %d: %d bytes are promised, claims have %d", i,
					s.PromisedBytes, want)
			}
		}
	}
	kept, err := Local{dir}.Kept(t.Context())
	if err != nil || len(kept) != len(running) {
		t.Errorf("kept are %v for %v, %v", kept, keys(running), err)
	}
}

// TestAgentRefusesWhatDoesNotFit has the scheduler give out more than there is.
func TestAgentRefusesWhatDoesNotFit(t *testing.T) {
	dir := shortDir(t)
	a := realAgent(t, dir)
	r := newRig(t)
	r.c.Agent = Local{dir}
	r.start()
	if _, err := r.d.Prepare(t.Context(), claimOf("a", "cuda-0", 60*share.GiB, 700)); err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]Claim{"GiB": claimOf("b", "cuda-0", 21*share.GiB, 1),
		"0.4": claimOf("c", "cuda-0", share.GiB, 400)} {
		_, err := r.d.Prepare(t.Context(), c)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
	if got := a.Snapshot().Devices[0]; got.PromisedBytes != 60<<30 || got.Guarantee != 0.7 ||
		!slices.Equal(r.d.Claims(), []string{"a"}) {
		t.Errorf("%d bytes and %v are promised to %v", got.PromisedBytes, got.Guarantee,
			r.d.Claims())
	}
	_ = a.Close()
	if err := r.d.Unprepare(t.Context(), "a"); err == nil {
		t.Error("a claim was given back without an agent")
	}
}

// TestInventory describes an agent's devices, and follows one that goes and the agent.
func TestInventory(t *testing.T) {
	dir := shortDir(t)
	a := realAgent(t, dir)
	s, err := Local{dir}.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	one := 1
	infos := []device.Info{
		{ID: "cuda:0", UUID: s.Devices[0].UUID, PCI: "0000:17:00.0", NUMANode: &one,
			ComputeCapability: "9.0", Links: []device.Link{{To: "cuda:1", NVLinks: 18}}},
		{ID: "cuda:1", UUID: s.Devices[1].UUID, Links: []device.Link{{To: "cuda:0", NVLinks: 18}}},
		{ID: "cuda:2", UUID: "GPU-other"},
	}
	got := Inventory(s, infos, device.Info{Name: "cpu", MemoryBytes: 1 << 30, Units: 4})
	if len(got) != 3 || got[0].Name != "cpu-0" || got[1].Name != "cuda-0" || got[2].Ordinal != 1 {
		t.Fatalf("%+v", got)
	}
	v := got[1].Attributes
	if v["numaNode"] != int64(1) || v["nvlinkGroup"] != int64(1) ||
		v["pciBusID"] != "0000:17:00.0" ||
		v["computeCapability"] != "9.0" || v["fake"] != true || v["type"] != "gpu" ||
		got[2].Attributes["nvlinkGroup"] != int64(1) || got[2].Attributes["numaNode"] != int64(-1) {
		t.Errorf("%v, %v", v, got[2].Attributes)
	}
	for _, d := range got {
		if len(d.Attributes) != len(v) {
			t.Errorf("%s has other attributes: %v", d.Name, d.Attributes)
		}
	}
	if now := Follow(got, got[:2], nil); len(now) != 3 || len(now[1].Sick) != 0 ||
		now[2].Sick[0].Key != DeviceGone {
		t.Errorf("%+v", now)
	}
	_ = a.Close()
	_, err = Local{dir}.Snapshot(t.Context())
	now := Follow(got, nil, err)
	if err == nil || len(now) != 3 || len(now[0].Sick) != 0 || now[1].Sick[0].Key != AgentGone {
		t.Errorf("%v: %+v", err, now)
	}
	s.Devices[0].Unmeasured = "hangs"
	d := Inventory(s, nil, device.Info{})
	if len(d) != 2 || d[0].Sick[0] != (Sickness{NoAnswer, "hangs"}) {
		t.Errorf("%+v", d)
	}
}
