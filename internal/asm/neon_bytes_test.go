package asm

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMatricesAreWhatTheySay has the disassembler of binutils read what is written as words, with
// numbers that set and clear each bit of their places, and compares that with the comment.
func TestMatricesAreWhatTheySay(t *testing.T) {
	tool, err := exec.LookPath("aarch64-linux-gnu-objdump")
	if err != nil {
		t.Skip("no aarch64-linux-gnu-objdump (Debian: binutils-aarch64-linux-gnu)")
	}
	var x Text
	for _, r := range [][3]int{{21, 10, 31}, {10, 21, 0}} {
		x.NEONMatrix(USMMLA, r[0], r[1], r[2])
		x.NEONMatrix(BFMMLA, r[0], r[1], r[2])
		x.BFCVTN(r[0], r[1])
	}
	var code []byte
	var want []string
	for line := range strings.Lines(x.String()) {
		var w uint32
		if _, err := fmt.Sscanf(line, "\tWORD $0x%x", &w); err != nil {
			t.Fatal(err, line)
		}
		_, says, _ := strings.Cut(line, "// ")
		code, want = binary.LittleEndian.AppendUint32(code, w), append(want, plainly(says))
	}
	path := filepath.Join(t.TempDir(), "code")
	if err := os.WriteFile(path, code, 0o644); err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command(tool, "-D", "-b", "binary", "-m", "aarch64", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^\s*[0-9a-f]+:\t[0-9a-f]{8} \t(.*)$`).FindAllStringSubmatch(
		string(text), -1)
	if len(found) != len(want) {
		t.Fatalf("%d instructions, want %d:\n%s", len(found), len(want), text)
	}
	for i, f := range found {
		if got := plainly(f[1]); got != want[i] {
			t.Errorf("word %d is %q, want %q", i, got, want[i])
		}
	}
}
