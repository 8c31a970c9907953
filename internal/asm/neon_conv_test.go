package asm

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFloatsNEONAreWhatTheySay has the disassembler of binutils read the words, with numbers that
// set and clear each bit of their places, and compares that with the comment beside each.
func TestFloatsNEONAreWhatTheySay(t *testing.T) {
	var x Text
	for _, op := range slices.Sorted(maps.Keys(floatsNEON)) {
		x.FloatsNEON(op, 21, 10, 31)
		x.FloatsNEON(op, 10, 21, 0)
	}
	for _, op := range slices.Sorted(maps.Keys(lanesNEON)) {
		for lane := range 4 {
			x.LaneNEON(op, 21, 10, 31, lane)
			x.LaneNEON(op, 10, 21, 14, lane)
		}
	}
	var code []byte
	var want []string
	for line := range strings.Lines(x.String()) {
		var w uint32
		if _, err := fmt.Sscanf(line, "\tWORD $0x%x", &w); err != nil {
			t.Fatal(err, line)
		}
		_, says, _ := strings.Cut(line, "// ")
		code = binary.LittleEndian.AppendUint32(code, w)
		want = append(want, plainly(says))
	}
	if got := objdump(t, code); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

var objdumpLine = regexp.MustCompile(`^\s*[0-9a-f]+:\t[0-9a-f]{8} \t(.*)$`)

// objdump returns an instruction for each word of code.
func objdump(t *testing.T, code []byte) (out []string) {
	t.Helper()
	tool, err := exec.LookPath("aarch64-linux-gnu-objdump")
	if err != nil {
		t.Skip("no aarch64-linux-gnu-objdump (Debian: binutils-aarch64-linux-gnu)")
	}
	file := filepath.Join(t.TempDir(), "code")
	if err := os.WriteFile(file, code, 0o644); err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command(tool, "-D", "-b", "binary", "-m", "aarch64", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if found := objdumpLine.FindStringSubmatch(strings.TrimRight(line, "\n")); found != nil {
			out = append(out, plainly(found[1]))
		}
	}
	return out
}

// TestUnknownNEONIsAnError holds that a file with an instruction that there is not is not saved.
func TestUnknownNEONIsAnError(t *testing.T) {
	for name, write := range map[string]func(f *File){
		"name": func(f *File) { f.FloatsNEON("FADDX", 0, 0, 0) },
		"of a lane": func(f *File) {
			f.LaneNEON("FADD", 0, 0, 0, 0)
		},
		"lane": func(f *File) { f.LaneNEON("FMLA", 0, 0, 0, 4) },
	} {
		f := NewFileFor("arm64", "here", "kernels")
		write(f)
		if err := f.Save(t.TempDir(), "x"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
