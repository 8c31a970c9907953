package main

import (
	"fmt"
	"strings"

	"github.com/weirgpu/weir/internal/asm"
)

const generator = "internal/kernel/vec/_generate"

// routine is anything that has a reference in Go and a version for each instruction set.
type routine interface {
	write(t *asm.Text, set asm.Vector, table *constants)
	declaration(set asm.Vector) string
	dispatch() string
	reference() string
}

// sets are the instruction sets in the order that routines are written for them.
var sets = []asm.Vector{asm.AVX512, asm.AVX2}

// family is one set of generated files: NAME_amd64.s, NAME_amd64.go and NAME_generic.go.
type family struct {
	name     string
	routines []routine
}

// both says that the family has routines for arm64, too: of those whose Go side is written by hand,
// the loops over rows.
func (f *family) both() bool {
	switch f.routines[0].(type) {
	case *kernel, column, *conversion:
		return true
	}
	return false
}

func (f *family) assembly(sets ...asm.Vector) string {
	table := &constants{symbol: f.name}
	var routines, all asm.Text
	routines.Described = f.name + ".go"
	for _, r := range f.routines {
		for _, set := range sets {
			r.write(&routines, set, table)
		}
	}
	all.Line("%s#include \"funcdata.h\"\n#include \"textflag.h\"", asm.Header(generator, "!noasm"))
	table.write(&all)
	switch {
	case !strings.Contains(routines.String(), "lanes<>"):
	case sets[0].Lanes == asm.VectorNEON.Lanes:
		all.Line("%s", maskTableNEON)
	default:
		all.Line("%s", maskTable)
	}
	return all.String() + routines.String()
}

func (f *family) amd64() string {
	var b strings.Builder
	b.WriteString(asm.Header(generator, "!noasm") + "package vec\n\n")
	b.WriteString("import \"github.com/weirgpu/weir/internal/cpuinfo\"\n")
	for _, r := range f.routines {
		b.WriteString("\n" + r.dispatch())
	}
	for _, r := range f.routines {
		for _, set := range sets {
			b.WriteString("\n" + r.declaration(set))
		}
	}
	return b.String()
}

// arm64 is the Go side of the routines for arm64.
func (f *family) arm64() string {
	var b strings.Builder
	b.WriteString(asm.Header(generator, "!noasm") + "package vec\n\n")
	b.WriteString("import \"github.com/weirgpu/weir/internal/cpuinfo\"\n")
	for _, r := range f.routines {
		b.WriteString("\n" + r.(interface{ dispatchNEON() string }).dispatchNEON())
	}
	for _, r := range f.routines {
		b.WriteString("\n" + r.declaration(asm.VectorNEON))
	}
	return b.String()
}

func (f *family) generic() string {
	var b strings.Builder
	constraint := "!amd64 || noasm"
	if _, byHand := f.routines[0].(*toBytes); byHand || f.both() {
		constraint = "!amd64 && !arm64 || noasm"
	}
	b.WriteString(asm.Header(generator, constraint) + "package vec\n")
	for _, r := range f.routines {
		b.WriteString("\n" + r.reference())
	}
	return b.String()
}

func (k *kernel) declaration(set asm.Vector) string {
	return fmt.Sprintf("// %s%s computes what %sRef does.\n//\n//go:noescape\nfunc %s%s(%s)%s\n",
		k.name, set.Name, k.name, k.name, set.Name, k.parameters(), k.result())
}

func (k *kernel) reference() string {
	verb := ""
	if k.sums {
		verb = "return "
	}
	return fmt.Sprintf("func %s(%s)%s { %s%sRef(%s) }\n",
		k.name, k.parameters(), k.result(), verb, k.name, k.arguments())
}

func (k *kernel) dispatch() string {
	if k.sums {
		return fmt.Sprintf(`func %[1]s(%[2]s)%[3]s {
	switch cpuinfo.Current() {
	case cpuinfo.AVX512:
		return %[1]sAVX512(%[4]s)
	case cpuinfo.AVX2:
		return %[1]sAVX2(%[4]s)
	}
	return %[1]sRef(%[4]s)
}
`, k.name, k.parameters(), k.result(), k.arguments())
	}
	now, rest := k.cut()
	return fmt.Sprintf(`func %[1]s(%[2]s) {
	level := cpuinfo.Current()
	if level == cpuinfo.Baseline {
		%[1]sRef(%[3]s)
		return
	}
	for len(dst) > 0 {
		n := min(len(dst), block)
		if level == cpuinfo.AVX512 {
			%[1]sAVX512(%[4]s)
		} else {
			%[1]sAVX2(%[4]s)
		}
		%[5]s = %[6]s
	}
}
`, k.name, k.parameters(), k.arguments(), now, strings.Join(k.slices(), ", "), rest)
}

// dispatchNEON is dispatch for arm64.
func (k *kernel) dispatchNEON() string {
	if k.sums {
		return fmt.Sprintf(`func %[1]s(%[2]s)%[3]s {
	if cpuinfo.HasNEON() {
		return %[1]sNEON(%[4]s)
	}
	return %[1]sRef(%[4]s)
}
`, k.name, k.parameters(), k.result(), k.arguments())
	}
	now, rest := k.cut()
	return fmt.Sprintf(`func %[1]s(%[2]s) {
	if !cpuinfo.HasNEON() {
		%[1]sRef(%[3]s)
		return
	}
	for len(dst) > 0 {
		n := min(len(dst), block)
		%[1]sNEON(%[4]s)
		%[5]s = %[6]s
	}
}
`, k.name, k.parameters(), k.arguments(), now, strings.Join(k.slices(), ", "), rest)
}

// cut is the arguments for the first n elements, and the slices without them.
func (k *kernel) cut() (now, rest string) {
	var first, other []string
	for _, s := range k.slices() {
		first, other = append(first, s+"[:n]"), append(other, s+"[n:]")
	}
	return strings.Join(append(first, k.scalars...), ", "), strings.Join(other, ", ")
}
