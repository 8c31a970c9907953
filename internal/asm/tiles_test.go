package asm

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// everyTile is each instruction with each tile and register that it takes.
func everyTile() (list []Tile) {
	for name, of := range tileInstructions {
		switch {
		case name == "tilerelease":
			list = append(list, Tile{Name: name})
		case name == "ldtilecfg":
			for _, r := range generalRegisters {
				list = append(list, Tile{Name: name, Base: r})
			}
		case of.opcode == 0x4b:
			for i, base := range generalRegisters {
				for j, index := range generalRegisters {
					for _, disp := range []int{0, 64, -128, 127} {
						list = append(list, Tile{Name: name, Dst: (i + j) & 7, Base: base,
							Index: index, Disp: disp})
					}
				}
			}
		default:
			for n := range 8 * 8 * 8 {
				list = append(list, Tile{Name: name, Dst: n & 7, A: n >> 3 & 7, B: n >> 6})
			}
		}
	}
	return list
}

// TestTilesDisassemble holds all encodings against binutils' disassembler, byte for byte: an
// instruction that took more or fewer bytes would move those after it.
func TestTilesDisassemble(t *testing.T) {
	objdump, err := exec.LookPath("objdump")
	if err != nil {
		t.Skip("no objdump of binutils is installed")
	}
	var code []byte
	var want []string
	for _, i := range everyTile() {
		b, err := i.Encode()
		if err != nil {
			continue
		}
		if i.Name == "tilezero" && (i.A|i.B) != 0 {
			continue
		}
		code, want = append(code, b...), append(want, i.String())
	}
	file := filepath.Join(t.TempDir(), "code")
	if err := os.WriteFile(file, code, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(objdump, "-D", "-b", "binary", "-m", "i386:x86-64",
		"--no-show-raw-insn", file).CombinedOutput()
	if err != nil {
		t.Skipf("objdump knows no amd64: %v\n%s", err, out)
	}
	if bytes.Contains(out, []byte("(bad)")) && !bytes.Contains(out, []byte("tilezero")) {
		t.Skip("this objdump knows no tiles")
	}
	var got []string
	for line := range strings.Lines(string(out)) {
		if at, text, ok := strings.Cut(strings.TrimSpace(line), ":\t"); ok && at != "" {
			got = append(got, strings.Join(strings.Fields(text), " "))
		}
	}
	if len(got) != len(want) || len(want) < 4000 {
		t.Fatalf("%d instructions are %d", len(want), len(got))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("instruction %d is %q, want %q", i, got[i], want[i])
		}
	}
}

// TestTilesAreRefused holds that what has no encoding of this form is no other instruction.
func TestTilesAreRefused(t *testing.T) {
	for _, i := range []Tile{
		{Name: "tilemove"}, {Name: "tilezero", Dst: 8}, {Name: "tdpbssd", A: -1, B: 1},
		{Name: "tdpbssd", A: 1, B: 8}, {Name: "tdpbssd", A: 1, B: 1}, {Name: "tdpbssd", B: 1},
		{Name: "tdpbuud", A: 1}, {Name: "ldtilecfg", Base: "SP"}, {Name: "ldtilecfg", Base: "R13"},
		{Name: "ldtilecfg", Base: "X0"}, {Name: "tileloadd", Base: "BX", Index: "SP"},
		{Name: "tileloadd", Base: "R13", Index: "R9"}, {Name: "tileloadd", Base: "BX", Index: "R9",
			Disp: 128}, {Name: "tilestored", Base: "BX"},
	} {
		if code, err := i.Encode(); err == nil {
			t.Errorf("%+v: % x", i, code)
		}
		var f File
		f.Tile(i)
		if err := f.Save(t.TempDir(), "x"); err == nil {
			t.Errorf("%+v is saved", i)
		}
	}
}
