package cpuinfo

import "testing"

func TestThirdFar(t *testing.T) {
	for _, e := range []struct {
		name string
		c    Caches
		want bool
	}{
		{"Zen 4 server", Caches{32 << 10, 1 << 20, 32 << 20}, false},
		{"Zen 5 server", Caches{48 << 10, 1 << 20, 32 << 20}, false},
		{"Zen 4 with a stacked third cache", Caches{32 << 10, 1 << 20, 96 << 20}, false},
		{"Skylake server", Caches{32 << 10, 1 << 20, 38 << 20}, false},
		{"Sapphire Rapids", Caches{48 << 10, 2 << 20, 105 << 20}, true},
		{"Emerald Rapids", Caches{48 << 10, 2 << 20, 300 << 20}, true},
		{"unknown", fallbackCaches, false},
	} {
		if got := e.c.ThirdFar(); got != e.want {
			t.Errorf("%s: far %v, want %v", e.name, got, e.want)
		}
	}
}
