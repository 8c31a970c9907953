package asm

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestJoinKeepsInstructions holds that instructions stay as they are and in their order, each label
// between the same two, and that lines are not too long.
func TestJoinKeepsInstructions(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	kinds := []string{"\tADDQ $32, SI", "\tVFMADD231PS (SI)(CX*4), Z1, Z2", "loop:", "\tRET", "",
		"\tMOVQ n+16(FP), CX", "\tBYTE $0x62; BYTE $0xf1 // VCVTNE2PS2BF16", "\tJNZ loop",
		"// func f()", "TEXT ·f(SB), 0, $256-24", "\tNO_LOCAL_POINTERS", "\tVMOVUPS Z1, ·t<>(SB)"}
	before, after := 0, 0
	for range 200 {
		var lines []string
		for range r.IntN(60) {
			lines = append(lines, kinds[r.IntN(len(kinds))])
		}
		text := strings.Join(append(lines, ""), "\n")
		joined := Join(text)
		if got := parted(joined); got != text {
			t.Fatalf("joined and parted again:\n%s\nwas\n%s", got, text)
		}
		for l := range strings.Lines(joined) {
			if n := columns(strings.TrimSuffix(l, "\n")); n > Width {
				t.Fatalf("%d columns: %s", n, l)
			}
		}
		before, after = before+len(lines), after+strings.Count(joined, "\n")
	}
	if 10*after > 9*before {
		t.Errorf("%d lines are %d", before, after)
	}
}

// parted puts every instruction on a line of its own; those with a comment stay.
func parted(text string) string {
	var out strings.Builder
	for l := range strings.Lines(text) {
		if !strings.Contains(l, "//") {
			l = strings.ReplaceAll(l, "; ", "\n\t")
		}
		out.WriteString(l)
	}
	return out.String()
}

// TestJoinLeavesAlone holds what stays on a line of its own.
func TestJoinLeavesAlone(t *testing.T) {
	for _, alone := range []string{"loop:", "\tMOVQ dst+0(FP), DI", "\tRET", "\tCALL ·g(SB)",
		"\tBYTE $1; BYTE $2 // X", "\tPCALIGN $16", "\tFUNCDATA $0, ·x(SB)", "\tPCDATA $0, $1",
		"\tNO_LOCAL_POINTERS", "#define ONE $1", "\tNEGQ AX \\", "\t\tNEGQ AX", "\t"} {
		text := "\tNEGQ CX\n" + alone + "\n\tNEGQ DX\n"
		if got := Join(text); got != text {
			t.Errorf("joined:\n%s", got)
		}
	}
	const two, joined = "\tNEGQ CX\n\tNEGQ DX\n\tNEGQ AX", "\tNEGQ CX; NEGQ DX\n\tNEGQ AX"
	if got := Join(two); got != joined {
		t.Errorf("instructions, the last not ended: %q", got)
	}
}
