package shim

import (
	"encoding/json"
	"testing"
	"time"
)

// TestFreesInStreamOrder frees most of the cap on a stream that waits for the program, and
// allocates as much again: it is taken until the stream comes to the free, so that only the same
// stream can have it of a pool, and nobody by cuMemAlloc. None of these calls waits for long.
func TestFreesInStreamOrder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		how     string
		movable bool
		want    map[string]int
	}{
		{"pool", false, map[string]int{"elsewhere": outOfMemory, "here": 0, "after": 0}},
		{"linear", false, map[string]int{"elsewhere": outOfMemory, "quarter": 0, "after": 0}},
		{"shared", false, map[string]int{"elsewhere": outOfMemory, "after": 0}},
		{"linear", true, map[string]int{"elsewhere": outOfMemory, "quarter": 0, "after": 0}},
	} {
		name := c.how
		if c.movable {
			name += " movable"
		}
		onProfiles(t, name, func(t *testing.T, profile string) {
			t.Parallel()
			w, dir := newWarden(t, fakeCap, 2*time.Millisecond), t.TempDir()
			w.gate(true)
			if c.movable {
				w.movable(1 << 30)
			}
			r := onFake(t, w, dir, "ordered", c.how, "80")
			r.Env = append(r.Env, profile)
			var got map[string]float64
			if err := json.Unmarshal([]byte(r.run(t)), &got); err != nil {
				t.Fatal(err)
			}
			for what, want := range c.want {
				if int(got[what]) != want {
					t.Errorf("%s: result %v, want %d", what, got[what], want)
				}
			}
			if got["ms"] > 1000 {
				t.Errorf("a call took %v ms", got["ms"])
			}
			if d := fakeDevice(t, dir); d.Peak > fakeCap {
				t.Errorf("the device held %d bytes of %d", d.Peak, fakeCap)
			}
		})
	}
}

// TestFreesOfAnIdleProgram has a program do nothing more once it has freed memory in stream order:
// what counts comes down all the same.
func TestFreesOfAnIdleProgram(t *testing.T) {
	t.Parallel()
	const most = 80 << 20
	w, dir := newWarden(t, fakeCap, 2*time.Millisecond), t.TempDir()
	w.gate(true)
	r := onFake(t, w, dir, "ordered", "idle", "80")
	in, err := r.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.start(t)
	w.await("the memory counts", func() bool { return w.page.Slot(0).MemUsedBytes.Load() >= most })
	if _, err := in.Write([]byte{'\n'}); err != nil {
		t.Fatal(err)
	}
	w.await("it counts no more", func() bool { return w.page.Slot(0).MemUsedBytes.Load() < most })
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	r.finish(t)
}
