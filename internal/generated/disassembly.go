package generated

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Disassembles fails t unless the instructions that a file of assembly for amd64 has as bytes, at
// least so many of them, are for binutils' disassembler what the comment beside each says. It skips
// where there is no such disassembler.
func Disassembles(t *testing.T, name string, least int) {
	t.Helper()
	objdump, err := exec.LookPath("objdump")
	if err != nil {
		t.Skip("no objdump of binutils is installed")
	}
	source, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	code, want := emitted(t, string(source))
	file := filepath.Join(t.TempDir(), "code")
	if err := os.WriteFile(file, code, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(objdump, "-D", "-b", "binary", "-m", "i386:x86-64",
		"--no-show-raw-insn", file).CombinedOutput()
	if err != nil {
		t.Skipf("objdump knows no amd64: %v", err)
	}
	var got []string
	for line := range strings.Lines(string(out)) {
		if at, text, ok := strings.Cut(strings.TrimSpace(line), ":\t"); ok && at != "" {
			got = append(got, strings.Join(strings.Fields(text), " "))
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") || len(want) < least {
		t.Errorf("%d instructions are\n%s\nwant\n%s", len(want), strings.Join(got, "\n"),
			strings.Join(want, "\n"))
	}
}

// emitted returns the bytes in a file of assembly, and what the comments beside them say.
func emitted(t *testing.T, source string) (code []byte, texts []string) {
	t.Helper()
	one := regexp.MustCompile(`BYTE \$0x([0-9a-f]{2})`)
	for line := range strings.Lines(source) {
		bytes, text, ok := strings.Cut(strings.TrimSpace(line), " // ")
		if !ok || !strings.HasPrefix(bytes, "BYTE") {
			continue
		}
		for _, m := range one.FindAllStringSubmatch(bytes, -1) {
			b, err := strconv.ParseUint(m[1], 16, 8)
			if err != nil {
				t.Fatal(err)
			}
			code = append(code, byte(b))
		}
		texts = append(texts, text)
	}
	return code, texts
}
