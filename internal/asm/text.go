package asm

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// Text is assembly that is being written. The zero value is empty and ready.
type Text struct {
	// Described is the file of the generator that describes the functions which follow; where it is
	// "", it is that of who calls Open.
	Described string

	out strings.Builder
	err error // the first instruction that could not be encoded
}

// Op writes one instruction or directive, with its operands in Go's order, the destination last.
func (t *Text) Op(format string, args ...any) { t.Line("\t"+format, args...) }

// Ops writes instructions that have no operands to fill in.
func (t *Text) Ops(lines ...string) {
	for _, l := range lines {
		t.out.WriteString("\t" + l + "\n")
	}
}

// Line writes a line, or several, as they are: instructions follow a tab.
func (t *Text) Line(format string, args ...any) { fmt.Fprintf(&t.out, format+"\n", args...) }

// Label writes a label, which is local to the current function.
func (t *Text) Label(name string) { t.Line("%s:", name) }

// Open begins a function, with a comment that says where it is described. Its parameters and
// results, written as in Go after its name, take so many bytes. A frame of 128 bytes or more makes
// the assembler keep the stack check in the prologue, which is what makes the call a point at which
// the runtime can stop the goroutine.
func (t *Text) Open(name, signature string, frame, bytes int) {
	t.Line("\n// func %s%s\n// Described in %s.\nTEXT ·%[1]s(SB), 0, $%[4]d-%d\n"+
		"\tNO_LOCAL_POINTERS", name, signature, t.described(), frame, bytes)
}

// described is Described, or the first file beyond this package of those that have called.
func (t *Text) described() string {
	if t.Described != "" {
		return t.Described
	}
	callers := make([]uintptr, 16)
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers)])
	for {
		f, more := frames.Next()
		if !strings.Contains(f.Function, "internal/asm.") || strings.HasSuffix(f.File, "_test.go") {
			return filepath.Base(f.File)
		}
		if !more {
			return "a file unknown"
		}
	}
}

// Words writes a read-only table of n words of 32 bits, which format writes without the dollar
// sign; the table is the symbol ·name<>, of this file only.
func (t *Text) Words(name, format string, n int, word func(i int) any) {
	for i := range n {
		t.Line("DATA ·%s<>+%d(SB)/4, $"+format, name, 4*i, word(i))
	}
	t.Line("GLOBL ·%s<>(SB), RODATA|NOPTR, $%d", name, 4*n)
}

// LaneMask writes the table ·laneMask<>, 16 words of ones and 16 of zeros: a load that starts 16-n
// words into it gives a mask of n lanes.
func (t *Text) LaneMask() {
	t.Words("laneMask", "0x%08x", 32, func(i int) any {
		if i < 16 {
			return ^uint32(0)
		}
		return uint32(0)
	})
}

// EVEX writes an instruction as bytes, with text as comment. File.Save reports what [EVEX.Encode]
// refuses.
func (t *Text) EVEX(e EVEX, text string) {
	code, err := e.Encode()
	if err != nil && t.err == nil {
		t.err = fmt.Errorf("%s: %w", text, err)
	}
	bytes := make([]string, len(code))
	for i, b := range code {
		bytes[i] = fmt.Sprintf("BYTE $0x%02x", b)
	}
	t.Op("%s // %s", strings.Join(bytes, "; "), text)
}

// String returns what was written.
func (t *Text) String() string { return t.out.String() }
