package asm

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Loop is a kernel that goes over slices of floats once. It is described once: [SaveLoops] writes
// it for every instruction set, with the Go that chooses among them.
type Loop struct {
	Name   string // of the Go function; routines have that of the instruction set behind it
	Does   string // what it does, as its comment goes on
	Slices []Slice
	// Vectors is how many vectors of the first slice are a round on arm64; 0 says 1, as on amd64.
	Vectors int
	Begin   func(c Code)           // what is before the loop; may be nil
	Round   func(c Code, at []Reg) // a round, which moves the pointers into the slices on
}

// Slice is a slice that a loop reads or writes: its name, and how many floats of it there are for
// each of the first one's.
type Slice struct {
	Name string
	Each int
}

// loopSets are the instruction sets that loops are written for, best first.
var loopSets = map[string][]Vector{"amd64": {AVX512, AVX2}, "arm64": {VectorNEON}}

// loopPointers are the registers that point into the slices, and loopCount that of the rounds left.
var (
	loopPointers = []Reg{{"DI", "R1"}, {"SI", "R2"}, {"R8", "R3"}, {"R9", "R5"}, {"R10", "R6"}}
	loopCount    = Reg{"CX", "R4"}
)

// SaveLoops writes NAME_amd64.s and NAME_arm64.s, the Go files that declare what is in them and
// choose by a value of the package's type level, and NAME_noasm.go for everything else, where
// loops do nothing.
func SaveLoops(generator, pkg, folder, name string, loops []Loop) error {
	for _, arch := range []string{"amd64", "arm64"} {
		f := NewFileFor(arch, generator, pkg)
		f.loopTables(arch)
		for i := range loops {
			loops[i].write(f, loopSets[arch])
		}
		if err := f.Save(folder, name+"_"+arch); err != nil {
			return err
		}
	}
	var b strings.Builder
	b.WriteString(Header(generator, "(!amd64 && !arm64) || noasm") + "package " + pkg + "\n")
	for i := range loops {
		fmt.Fprintf(&b, "\n// %s has no kernel.\nfunc %[1]s(%s) (done int) { return 0 }\n",
			loops[i].Name, loops[i].parameters("_"))
	}
	return Write(filepath.Join(folder, name+"_noasm.go"), b.String())
}

// loopTables writes what Split and Weave read of memory.
func (f *File) loopTables(arch string) {
	if arch != "amd64" {
		return
	}
	f.Line("")
	f.Words("evenLanes", "%d", 16, func(i int) any { return 2 * i })
	f.Line("")
	f.Words("pairLanes", "%d", 32, func(i int) any { return i/2 + 16*(i%2) })
}

// parameters are those of the Go function.
func (l *Loop) parameters(level string) string {
	return level + " level, " + strings.Join(l.names(), ", ") + " []float32"
}

func (l *Loop) names() (list []string) {
	for _, s := range l.Slices {
		list = append(list, s.Name)
	}
	return list
}

// floats are those of the first slice in a round.
func (l *Loop) floats(v Vector) int {
	if v.Name == VectorNEON.Name {
		return v.Lanes * max(l.Vectors, 1)
	}
	return v.Lanes
}

// write writes the routine for each set and the function that chooses.
func (l *Loop) write(f *File, sets []Vector) {
	first := l.Slices[0]
	f.Declare("\n// %s %s: the first floats of %s, as many as it returns, the rest is left.\n"+
		"func %[1]s(%[4]s) (done int) {\n\tswitch n := len(%[3]s); {\n", l.Name, l.Does, first.Name,
		l.parameters("v"))
	for _, v := range sets {
		n := l.floats(v)
		f.Declare("\tcase v == level%s && n >= %d:\n\t\tdone = n &^ %d\n\t\t%s%[1]s(", v.Name, n,
			n-1, l.Name)
		for _, s := range l.Slices {
			times := ""
			if s.Each > 1 {
				times = fmt.Sprint(s.Each, "*")
			}
			f.Declare("&%s[:%sdone][0], ", s.Name, times)
		}
		f.Declare("done/%d)\n", n)
	}
	f.Declare("\t}\n\treturn done\n}\n")
	for _, v := range sets {
		l.routine(f, v)
	}
}

// routine writes the loop for one set.
func (l *Loop) routine(f *File, v Vector) {
	c := Code{File: f, Vector: v}
	f.Func(l.Name+v.Name, strings.Join(l.names(), ", ")+" *float32, n int", 8*len(l.Slices)+8,
		fmt.Sprintf("%s, %d*n floats of %s, n >= 1.", l.Does, l.floats(v), l.Slices[0].Name))
	for i, s := range l.Slices {
		c.Argument(s.Name, 8*i, loopPointers[i])
	}
	c.Argument("n", 8*len(l.Slices), loopCount)
	if l.Begin != nil {
		l.Begin(c)
	}
	c.Label("loop")
	l.Round(c, loopPointers[:len(l.Slices)])
	c.Down(loopCount, "loop")
	c.Return()
}
