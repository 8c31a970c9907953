package main

import (
	"errors"
	"strings"
	"testing"
)

// TestBranches reads where the branches of a loop lead, as llvm-mc writes them.
func TestBranches(t *testing.T) {
	for w, want := range map[uint32]int{
		0xb5fffc88: -28, // cbnz x8, #-112
		0xb4000068: 3,   // cbz x8, #12
		0x54ffffe1: -1,  // b.ne #-4
		0x35ffffe0: -1,  // cbnz w0, #-4
	} {
		if at, ok := target(w); !ok || at != want {
			t.Errorf("%#x leads to %d, %v, want %d", w, at, ok, want)
		}
	}
	for _, w := range []uint32{0xd65f03c0, 0x4f981340, 0x14000001} { // ret, fmla, b
		if at, ok := target(w); ok {
			t.Errorf("%#x leads to %d", w, at)
		}
	}
}

// TestLoopsOfTiles has the models run the kernels where there are any: large tiles keep to the
// bounds, and a loop whose every multiplication waits for the one before does not.
func TestLoopsOfTiles(t *testing.T) {
	m, err := newModel()
	if errors.Is(err, errTools) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := measure("^(tileNEON|matrixBF16_6|tileDotU8S8_6)")
	if err != nil {
		t.Fatal(err)
	}
	if !r.Held || r.Large.Loops == 0 || len(r.Loops) < 18 {
		t.Errorf("worst and median %v of large tiles, %v of %d loops", r.Large, r.All, len(r.Loops))
	}
	each, err := m.multiply("neoverse-v1", "fmla")
	if err != nil {
		t.Fatal(err)
	}
	chain := strings.Repeat("fmla v0.4s, v30.4s, v31.s[0]\n", 8)
	if u, err := m.cycles("neoverse-v1", chain); err != nil || 8*each/u.cycles > 0.5 {
		t.Errorf("a chain of 8 multiplications takes %g cycles of %g each, %v", u.cycles, each,
			err)
	}
}
