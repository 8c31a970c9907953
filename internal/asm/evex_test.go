package asm

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEncodeAsOthers holds encodings that the tests of LLVM's assembler have
// (llvm/test/MC/X86/avx512_bf16-encoding.s), whose operands stand in Intel's order reversed.
func TestEncodeAsOthers(t *testing.T) {
	for _, c := range []struct {
		text string
		e    EVEX
		want [6]byte
	}{
		{"vcvtne2ps2bf16 %zmm28, %zmm29, %zmm30", EVEX{PrefixF2, 0x72, 30, 29, 28},
			[6]byte{0x62, 0x02, 0x17, 0x40, 0x72, 0xf4}},
		{"vdpbf16ps %zmm28, %zmm29, %zmm30", EVEX{PrefixF3, 0x52, 30, 29, 28},
			[6]byte{0x62, 0x02, 0x16, 0x40, 0x52, 0xf4}},
		{"vdpbf16ps %zmm4, %zmm5, %zmm6", EVEX{PrefixF3, 0x52, 6, 5, 4},
			[6]byte{0x62, 0xf2, 0x56, 0x48, 0x52, 0xf4}},
	} {
		if got, err := c.e.Encode(); err != nil || got != c.want {
			t.Errorf("%s: % x, %v, want % x", c.text, got, err, c.want)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	for _, e := range []EVEX{{Dst: 32}, {Src1: -1}, {Src2: 32}} {
		if code, err := e.Encode(); err == nil {
			t.Errorf("%+v gave % x", e, code)
		}
	}
}

// TestEncodeAsGo holds the encoder against Go's assembler: an instruction that it knows, with every
// register in each place.
func TestEncodeAsGo(t *testing.T) {
	var text Text
	text.Open("known", "()", 0, 0)
	eachRegister(func(dst, src1, src2 int) {
		text.Op("VPDPBUSD Z%d, Z%d, Z%d", src2, src1, dst)
	})
	text.Open("bytes", "()", 0, 0)
	eachRegister(func(dst, src1, src2 int) {
		text.EVEX(EVEX{Prefix66, 0x50, dst, src1, src2}, "VPDPBUSD")
	})
	code := assembled(t, strings.ReplaceAll(text.String(), "\tNO_LOCAL_POINTERS\n", ""))
	if len(code) != 2 || len(code[0]) < 3*32*6*3 || code[0] != code[1] {
		t.Errorf("bytes of the functions: %q", code)
	}
}

func eachRegister(f func(dst, src1, src2 int)) {
	for r := range 32 {
		f(r, 1, 2)
		f(1, r, 2)
		f(1, 2, r)
	}
}

// assembled returns the bytes of each function in the listing of Go's assembler.
func assembled(t *testing.T, text string) []string {
	t.Helper()
	goTool, err := exec.LookPath("go")
	if err != nil || testing.Short() {
		t.Skip("needs the go command")
	}
	path := filepath.Join(t.TempDir(), "text.s")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(goTool, "tool", "asm", "-p", "x", "-S", "-o", path+".o", path)
	command.Env = append(os.Environ(), "GOARCH=amd64")
	listing, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("assembler: %v\n%s", err, listing)
	}
	hex := regexp.MustCompile(`(?m)^\t0x[0-9a-f]+ ((?:[0-9a-f]{2} )+)`)
	var code []string
	for _, function := range strings.Split(string(listing), " STEXT ")[1:] {
		all := ""
		for _, line := range hex.FindAllStringSubmatch(function, -1) {
			all += line[1]
		}
		code = append(code, all)
	}
	return code
}
