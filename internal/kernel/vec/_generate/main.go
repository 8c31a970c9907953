// Command _generate writes the assembly of package vec and the Go files that choose between its
// versions. Its argument is the folder of the package.
package main

import (
	"path/filepath"

	"github.com/weirgpu/weir/internal/asm"
)

func main() { asm.Main(generate) }

func generate(folder string) error {
	families := []family{
		{"arithmetic", arithmetic()},
		{"elementary", elementary()},
		{"activation", activation()},
		{"reduction", reduction()},
		{"softmax", softmax()},
		{"norm", norm()},
		{"training", training()},
		{"column", columns()},
		{"convert", convert()},
		{"quantize", quantize()},
		{"search", search()},
		{"compare", compare()},
		{"transpose", transpose()},
		{"interleave", interleave()},
	}
	for _, f := range families {
		if err := f.save(filepath.Join(folder, f.name)); err != nil {
			return err
		}
	}
	return byHandNEON(folder)
}

// byHandNEON writes the families for arm64 whose Go side is written by hand there.
func byHandNEON(folder string) error {
	for _, g := range []struct {
		name  string
		write func(f *asm.File)
	}{
		{"quantize", quantizedNEON}, {"search", searchNEON}, {"compare", compareNEON},
		{"interleave", interleaveNEON},
		{"transpose", func(f *asm.File) {
			transposeNEON(f, 4)
			transposeNEON(f, 2)
		}},
	} {
		f := asm.NewFileFor("arm64", generator, "vec")
		f.Described = g.name + ".go"
		g.write(f)
		if err := f.Save(folder, g.name+"_arm64"); err != nil {
			return err
		}
	}
	return nil
}

// save writes the files whose paths begin like that.
func (f *family) save(path string) error {
	if err := asm.Write(path+"_amd64.s", f.assembly(sets...)); err != nil {
		return err
	}
	if f.both() {
		if err := asm.Write(path+"_arm64.s", f.assembly(asm.VectorNEON)); err != nil {
			return err
		}
	}
	switch f.routines[0].(type) {
	case raw, column: // whose Go side is written by hand
		return nil
	}
	if err := asm.Write(path+"_amd64.go", f.amd64()); err != nil {
		return err
	}
	if f.both() {
		if err := asm.Write(path+"_arm64.go", f.arm64()); err != nil {
			return err
		}
	}
	return asm.Write(path+"_generic.go", f.generic())
}
