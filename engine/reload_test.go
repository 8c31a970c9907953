package engine

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/far"
)

// TestReload: how long it takes to bring all weights is what the device says of its bus until some
// were brought, and never less than the bus takes.
func TestReload(t *testing.T) {
	bus := device.Bus{BytesPerS: 50e6, PerTransfer: 50 * time.Microsecond}
	d, err := far.Open("far:0", far.Options{MemoryBytes: 8 << 20, Bus: bus})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	b := newBench(t)
	c := place{"far, copied", d, d.Target(), true}
	p := c.compile(t, tower(t, rand.New(rand.NewPCG(13, 6)), 2), 2)
	s, err := Load(p, c.options(t, b, p))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got, want := s.Reload(), bus.Transfer(p.PackedBytes); got != want {
		t.Errorf("before any came again: %v, want the bus's %v", got, want)
	}
	if freed := s.Evict(p.PackedBytes / 2); freed != p.PackedBytes/2 {
		t.Fatalf("%d bytes left", freed)
	}
	if _, err := run(t.Context(), s, 1); err != nil {
		t.Fatal(err)
	}
	least := time.Duration(float64(p.PackedBytes) / bus.BytesPerS * float64(time.Second))
	if got := s.Reload(); got < least {
		t.Errorf("after half came again: %v, the bus takes %v at least", got, least)
	}
	s.Close()
	if got := s.Reload(); got != 0 {
		t.Errorf("of a closed session: %v", got)
	}
	none, err := Load(selective(t), b.options())
	if err != nil {
		t.Fatal(err)
	}
	defer none.Close()
	if got := none.Reload(); got != 0 {
		t.Errorf("of no weights: %v", got)
	}
}

// TestPaces: of a group the lesser of its last two transfers counts, so that one that was held up
// changes nothing and a slower way shows with the second.
func TestPaces(t *testing.T) {
	var p paces
	p.cut([]int64{1000, 4000})
	if d := p.whole(); d != 0 {
		t.Errorf("before any came: %v", d)
	}
	for _, c := range []struct {
		group int
		bytes int64
		took  time.Duration
		want  time.Duration
	}{
		{1, 1500, 3000, 8000}, // the first group as the second, of which a half came
		{0, 1000, 5000, 11_000},
		{1, 3000, 900_000, 11_000},
		{1, 3000, 6000, 11_000},
		{1, 3000, 9000, 11_000},
		{1, 3000, 9000, 14_000},
		{1, 3000, 3000, 8000},
	} {
		p.cut([]int64{1000, 4000})
		p.last[c.group].note(c.bytes, c.took)
		if d := p.whole(); d != c.want {
			t.Errorf("%+v: %v", c, d)
		}
	}
	if p.cut([]int64{2000, 4000}); p.whole() != 8000 {
		t.Errorf("cut otherwise: %v", p.whole())
	}
	if p.last[1].note(2000, 2000); p.whole() != 4000 {
		t.Errorf("cut otherwise, of which one came: %v", p.whole())
	}
}
