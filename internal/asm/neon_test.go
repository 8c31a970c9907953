package asm

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestNEONIsWhatItSays has LLVM's disassembler read what is written as words, with numbers
// that set and clear each bit of their places, and compares that with the comment beside it.
func TestNEONIsWhatItSays(t *testing.T) {
	var x Text
	for _, op := range []NEON{FADD, FMUL, FMLA, FCMGT, BIT} {
		x.NEON(op, 21, 10, 31)
		x.NEON(op, 10, 21, 0)
	}
	for lane := range 4 {
		x.FMLALane(21, 10, 31, lane)
		x.FMLALane(10, 21, 14, lane)
	}
	var words []uint32
	var want []string
	for line := range strings.Lines(x.String()) {
		var w uint32
		if _, err := fmt.Sscanf(line, "\tWORD $0x%x", &w); err != nil {
			t.Fatal(err, line)
		}
		_, says, _ := strings.Cut(line, "// ")
		words, want = append(words, w), append(want, plainly(says))
	}
	got := disassemble(t, words)
	if len(got) != len(want) {
		t.Fatalf("%d instructions, want %d: %q", len(got), len(want), got)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("%#08x is %q, want %q", words[i], got[i], want[i])
		}
	}
}

// disassemble returns an instruction a word.
func disassemble(t *testing.T, words []uint32) (out []string) {
	t.Helper()
	path, err := exec.LookPath("llvm-mc")
	if err != nil {
		t.Skip("no llvm-mc (Debian: llvm)")
	}
	var hex strings.Builder
	for _, w := range words {
		fmt.Fprintf(&hex, "0x%02x 0x%02x 0x%02x 0x%02x\n", byte(w), byte(w>>8), byte(w>>16),
			byte(w>>24))
	}
	cmd := exec.Command(path, "--disassemble", "--triple=aarch64", "--mattr=+neon")
	cmd.Stdin = strings.NewReader(hex.String())
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for line := range strings.Lines(string(text)) {
		if s := strings.TrimSpace(line); s != "" && !strings.HasPrefix(s, ".") {
			out = append(out, plainly(s))
		}
	}
	return out
}

var blanks = regexp.MustCompile(`\s+`)

// plainly is an instruction in small letters with single blanks; BIT works on bytes.
func plainly(s string) string {
	s = blanks.ReplaceAllString(strings.ToLower(strings.TrimSpace(s)), " ")
	if strings.HasPrefix(s, "bit ") {
		s = strings.ReplaceAll(s, ".4s", ".16b")
	}
	return s
}
