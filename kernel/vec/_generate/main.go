// Command _generate writes the assembly of package vec and the Go files that choose between its
// versions. Its argument is the folder of the package.
package main

import (
	"fmt"
	"go/format"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run . FOLDER")
		os.Exit(2)
	}
	families := []family{
		{"arithmetic", arithmetic()},
		{"elementary", elementary()},
		{"activation", activation()},
		{"reduction", reduction()},
		{"softmax", softmax()},
		{"norm", norm()},
		{"column", columns()},
		{"convert", convert()},
		{"quantize", quantize()},
		{"search", search()},
		{"transpose", transpose()},
		{"interleave", interleave()},
	}
	for _, f := range families {
		if err := f.save(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func (f *family) save(folder string) error {
	files := map[string]string{f.name + "_amd64.s": f.assembly()}
	switch f.routines[0].(type) {
	case raw, column: // whose Go side is written by hand
		return write(folder, files)
	}
	for name, text := range map[string]string{f.name + "_amd64.go": f.amd64(),
		f.name + "_generic.go": f.generic()} {
		source, err := format.Source([]byte(text))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		files[name] = string(source)
	}
	return write(folder, files)
}

func write(folder string, files map[string]string) error {
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
