package cpuinfo

import (
	"slices"
	"strings"
	"testing"
)

// asking answers from a table, as sysctl does, with 0 for what it does not have.
func asking(values map[string]int) func(string) int {
	return func(name string) int { return values[name] }
}

// m1 is what sysctl says on Apple's M1.
var m1 = map[string]int{
	"hw.nperflevels":             2,
	"hw.l1dcachesize":            64 << 10,
	"hw.l2cachesize":             4 << 20,
	"hw.perflevel0.physicalcpu":  4,
	"hw.perflevel0.logicalcpu":   4,
	"hw.perflevel0.cpusperl2":    4,
	"hw.perflevel0.l1dcachesize": 128 << 10,
	"hw.perflevel0.l2cachesize":  12 << 20,
	"hw.perflevel1.physicalcpu":  4,
	"hw.perflevel1.logicalcpu":   4,
	"hw.perflevel1.cpusperl2":    4,
	"hw.perflevel1.l1dcachesize": 64 << 10,
	"hw.perflevel1.l2cachesize":  4 << 20,
}

// A blocking that fits the caches of the slower cores fits those of the others.
func TestKindsOfCoresByName(t *testing.T) {
	for _, e := range []struct {
		name   string
		values map[string]int
		kinds  []CoreKind
		caches Caches
	}{
		{"nothing told", nil, nil, Caches{}},
		{"two levels", m1, []CoreKind{{Cores: 4}, {Cores: 4}}, Caches{64 << 10, 1 << 20, 4 << 20}},
		{"threads of one core share its second level", map[string]int{
			"hw.nperflevels": 1, "hw.perflevel0.physicalcpu": 4, "hw.perflevel0.logicalcpu": 8,
			"hw.perflevel0.cpusperl2": 2, "hw.perflevel0.l1dcachesize": 32 << 10,
			"hw.perflevel0.l2cachesize": 256 << 10, "hw.l3cachesize": 6 << 20,
		}, []CoreKind{{Cores: 8}}, Caches{32 << 10, 256 << 10, 6 << 20}},
		{"before levels", map[string]int{"hw.l1dcachesize": 32 << 10, "hw.l2cachesize": 256 << 10,
			"hw.l3cachesize": 3 << 20}, nil, Caches{32 << 10, 256 << 10, 3 << 20}},
		{"no such number of levels", map[string]int{"hw.nperflevels": 1 << 40}, nil, Caches{}},
	} {
		if got := sysctlKinds(asking(e.values)); !slices.Equal(got, e.kinds) {
			t.Errorf("%s: kinds %v, want %v", e.name, got, e.kinds)
		}
		if got := sysctlCaches(asking(e.values)); got != e.caches {
			t.Errorf("%s: caches %v, want %v", e.name, got, e.caches)
		}
	}
}

// TestPartsAreNamed reads what Linux says on arm64.
func TestPartsAreNamed(t *testing.T) {
	one := func(maker, part string) string {
		return "processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: " + maker +
			"\nCPU architecture: 8\nCPU part\t: " + part + "\nCPU revision\t: 1\n\n"
	}
	for text, want := range map[string]string{
		one("0x41", "0xd4f"): "Neoverse-V2",
		one("0x41", "0xd05") + one("0x41", "0xd05") + one("0x41", "0xd0b"): "Cortex-A55 + " +
			"Cortex-A76",
		one("0x61", "0xd08"):       "arm64 of maker 0x61, part 0xd08",
		one("0x41", "0xfff"):       "arm64 of maker 0x41, part 0xfff",
		"model name\t: AMD EPYC\n": "",
	} {
		if got := parseParts(strings.NewReader(text)); got != want {
			t.Errorf("%q names %q, want %q", text, got, want)
		}
	}
}
