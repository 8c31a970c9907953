package asm

import (
	"fmt"
	"slices"
	"strings"
)

// Tile is an instruction on the tiles of Intel's Advanced Matrix Extensions, which Go's assembler
// does not know (Intel, "Software Developer's Manual", volume 2, section 2.3, VEX encoding: three
// bytes, opcode map 0F38, W = 0, L = 0).
type Tile struct {
	Name string // as binutils has it: one of tileInstructions
	Dst  int    // the tile that is written, or stored
	A, B int    // of a product
	// Base and Index are the registers of an operand in memory, Disp, from -128 to 127, what is
	// added: the tile's first row. The next is as many bytes further as Index says.
	Base, Index string
	Disp        int
}

// tileInstruction is what differs between instructions.
type tileInstruction struct {
	prefix Prefix
	opcode byte
}

// tileInstructions are those of AMX-TILE, AMX-BF16 and AMX-INT8.
var tileInstructions = map[string]tileInstruction{
	"ldtilecfg": {PrefixNone, 0x49}, "tilerelease": {PrefixNone, 0x49},
	"tilezero":  {PrefixF2, 0x49},
	"tileloadd": {PrefixF2, 0x4b}, "tileloaddt1": {Prefix66, 0x4b}, "tilestored": {PrefixF3, 0x4b},
	"tdpbf16ps": {PrefixF3, 0x5c},
	"tdpbssd":   {PrefixF2, 0x5e}, "tdpbsud": {PrefixF3, 0x5e},
	"tdpbusd": {Prefix66, 0x5e}, "tdpbuud": {PrefixNone, 0x5e},
}

// generalRegisters are in the order of their numbers.
var generalRegisters = []string{"AX", "CX", "DX", "BX", "SP", "BP", "SI", "DI", "R8", "R9", "R10",
	"R11", "R12", "R13", "R14", "R15"}

// Encode returns the bytes of the instruction. It refuses names, tiles and registers that there are
// not, products whose tiles are not three, which are illegal, and registers that take another form
// of operands in memory: SP and R12 without an index, SP as one, BP and R13 as the base of what has
// no displacement.
func (i Tile) Encode() ([]byte, error) {
	of, ok := tileInstructions[i.Name]
	if !ok {
		return nil, fmt.Errorf("instruction %q: none on tiles", i.Name)
	}
	for _, t := range []int{i.Dst, i.A, i.B} {
		if t < 0 || t > 7 {
			return nil, fmt.Errorf("%s: tile %d of 0 to 7", i.Name, t)
		}
	}
	dst := byte(i.Dst) << 3
	switch of.opcode {
	case 0x5c, 0x5e:
		if i.Dst == i.A || i.Dst == i.B || i.A == i.B {
			return nil, fmt.Errorf("%s: tiles %d, %d and %d, want three", i.Name, i.Dst, i.A, i.B)
		}
		return of.vex(0, 0, i.B, 0xc0|dst|byte(i.A)), nil
	case 0x4b:
		return i.strided(of, dst)
	}
	switch i.Name {
	case "tilerelease":
		return of.vex(0, 0, 0, 0xc0), nil
	case "tilezero":
		return of.vex(0, 0, 0, 0xc0|dst), nil
	}
	base := slices.Index(generalRegisters, i.Base)
	if base < 0 || base&7 == 4 || base&7 == 5 {
		return nil, fmt.Errorf("%s: base register %q", i.Name, i.Base)
	}
	return of.vex(0, base, 0, byte(base&7)), nil
}

// strided is an instruction with rows in memory that lie as far apart as a register says.
func (i Tile) strided(of tileInstruction, dst byte) ([]byte, error) {
	base, index := slices.Index(generalRegisters, i.Base), slices.Index(generalRegisters, i.Index)
	if base < 0 || index < 0 || i.Index == "SP" || base&7 == 5 && i.Disp == 0 ||
		i.Disp != int(int8(i.Disp)) {
		return nil, fmt.Errorf("%s: rows from %d(%s), %s apart", i.Name, i.Disp, i.Base, i.Index)
	}
	sib := byte(index&7)<<3 | byte(base&7)
	if i.Disp == 0 {
		return of.vex(index, base, 0, dst|4, sib), nil
	}
	return of.vex(index, base, 0, 0x40|dst|4, sib, byte(i.Disp)), nil
}

// vex is an instruction with the registers of its operand in memory and one that is multiplied.
func (of tileInstruction) vex(index, base, source int, rest ...byte) []byte {
	high := func(r, bit int) byte { return byte(^r>>3&1) << bit }
	return append([]byte{0xc4, 0x80 | high(index, 6) | high(base, 5) | 2,
		byte(^source&15)<<3 | byte(of.prefix), of.opcode}, rest...)
}

// String is the text that binutils' disassembler has for the instruction, the destination last.
func (i Tile) String() string {
	tile := func(n int) string { return fmt.Sprintf("%%tmm%d", n) }
	rows := func() string {
		if i.Disp == 0 {
			return fmt.Sprintf("(%s,%s,1)", named(i.Base), named(i.Index))
		}
		return strings.Replace(fmt.Sprintf("%#x(%s,%s,1)", i.Disp, named(i.Base), named(i.Index)),
			"0x-", "-0x", 1)
	}
	switch {
	case i.Name == "tilerelease":
		return i.Name
	case i.Name == "ldtilecfg":
		return fmt.Sprintf("%s (%s)", i.Name, named(i.Base))
	case i.Name == "tilezero":
		return i.Name + " " + tile(i.Dst)
	case i.Name == "tilestored":
		return i.Name + " " + tile(i.Dst) + "," + rows()
	case strings.HasPrefix(i.Name, "tileload"):
		return i.Name + " " + rows() + "," + tile(i.Dst)
	}
	return fmt.Sprintf("%s %s,%s,%s", i.Name, tile(i.B), tile(i.A), tile(i.Dst))
}

// named is a register as binutils names it.
func named(r string) string {
	if strings.HasPrefix(r, "R") {
		return "%" + strings.ToLower(r)
	}
	return "%r" + strings.ToLower(r)
}

// Tile writes an instruction on tiles as bytes, with its text as comment. File.Save reports what
// [Tile.Encode] refuses.
func (t *Text) Tile(i Tile) {
	code, err := i.Encode()
	if err != nil && t.err == nil {
		t.err = err
	}
	bytes := make([]string, len(code))
	for j, b := range code {
		bytes[j] = fmt.Sprintf("BYTE $0x%02x", b)
	}
	t.Op("%s // %s", strings.Join(bytes, "; "), i)
}
