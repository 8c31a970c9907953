package asm

import (
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

// TestVectorInstructionsAreWhatTheySay has the disassembler of the GNU binutils read every
// instruction that Vec and VecLane write, with numbers that set and clear each bit of their places,
// and compares that with the comment beside it.
func TestVectorInstructionsAreWhatTheySay(t *testing.T) {
	path, err := exec.LookPath("aarch64-linux-gnu-objdump")
	if err != nil {
		t.Skip("no aarch64-linux-gnu-objdump (Debian: binutils-aarch64-linux-gnu)")
	}
	var x Text
	for _, name := range slices.Sorted(maps.Keys(vectorOps)) {
		switch vectorOps[name].form {
		case ofThree:
			x.Vec(name, 21, 10, 31)
			x.Vec(name, 10, 21, 0)
		case ofTwo:
			x.Vec(name, 21, 10)
			x.Vec(name, 10, 21)
		default:
			x.Vec(name, 21, 10, 21)
			x.Vec(name, 10, 21, 10)
			x.Vec(name, 10, 21, 31)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(laneOps)) {
		for lane := range 4 {
			x.VecLane(name, 21, 10, 31, lane)
			x.VecLane(name, 10, 21, 14, lane)
		}
	}
	if x.Err() != nil {
		t.Fatal(x.Err())
	}
	words, want := said(t, x.String())
	got := dumped(t, path, words)
	if !slices.Equal(got, want) {
		for i := range want {
			if i < len(got) && got[i] != want[i] {
				t.Errorf("%#08x is %q, want %q", words[i], got[i], want[i])
			}
		}
		t.Fatalf("%d instructions, want %d", len(got), len(want))
	}
}

// said are the words of a text, and the comments beside them as objdump writes instructions.
func said(t *testing.T, text string) (words []uint32, want []string) {
	t.Helper()
	for line := range strings.Lines(text) {
		var w uint32
		if _, err := fmt.Sscanf(line, "\tWORD $0x%x", &w); err != nil {
			t.Fatal(err, line)
		}
		_, says, _ := strings.Cut(line, "// ")
		words = append(words, w)
		want = append(want, strings.ReplaceAll(plainly(says), "$", "#"))
	}
	return words, want
}

var dumpLine = regexp.MustCompile(`(?m)^\s*[0-9a-f]+:\s+[0-9a-f]{8}\s+(.*)$`)

// dumped has objdump read words.
func dumped(t *testing.T, objdump string, words []uint32) (out []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "words")
	var data []byte
	for _, w := range words {
		data = append(data, byte(w), byte(w>>8), byte(w>>16), byte(w>>24))
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command(objdump, "-D", "-b", "binary", "-m", "aarch64", path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, m := range dumpLine.FindAllStringSubmatch(string(text), -1) {
		s := blanks.ReplaceAllString(strings.TrimSpace(strings.Split(m[1], "//")[0]), " ")
		out = append(out, strings.Replace(s, "mvn ", "not ", 1))
	}
	return out
}

var blanks = regexp.MustCompile(`\s+`)

// plainly is an instruction in small letters with single blanks.
func plainly(s string) string {
	return blanks.ReplaceAllString(strings.ToLower(strings.TrimSpace(s)), " ")
}

// TestUnknownVectorsAreNotSaved holds that a file with an instruction that there is not is not
// saved.
func TestUnknownVectorsAreNotSaved(t *testing.T) {
	for name, write := range map[string]func(f *File){
		"name":      func(f *File) { f.Vec("FADDX", 0, 0, 0) },
		"of a lane": func(f *File) { f.VecLane("FADD", 0, 0, 0, 0) },
		"lane":      func(f *File) { f.VecLane("FMLA", 0, 0, 0, 4) },
	} {
		f := NewFileFor("arm64", "here", "kernels")
		write(f)
		if err := f.Save(t.TempDir(), "x"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestVecRefuses holds that what is no instruction, or has other operands, is reported once.
func TestVecRefuses(t *testing.T) {
	for name, operands := range map[string][]int{"FADD": {1, 2}, "FSQRT": {1, 2, 3},
		"VADDPS": {1, 2, 3}} {
		var x Text
		x.Vec(name, operands...)
		if x.Err() == nil || !strings.Contains(x.Err().Error(), name) || x.String() != "" {
			t.Errorf("%s of %d operands: %v, %q", name, len(operands), x.Err(), x.String())
		}
	}
}
