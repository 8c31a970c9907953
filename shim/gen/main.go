package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("shim", ".", "the shim's folder")
	docs := flag.String("docs", "../docs", "where the coverage report goes")
	imp := flag.Bool("import", false,
		"add what the CUDA headers in the folders given declare, oldest release first")
	flag.Parse()
	if err := run(*root, *docs, *imp, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(root, docs string, imp bool, dirs []string) error {
	file := filepath.Join(root, "calls.tab")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	t, err := ParseTable(bytes.NewReader(text))
	if err != nil {
		return err
	}
	if imp {
		if err := importAll(t, file, dirs); err != nil {
			return err
		}
	}
	out, err := t.Generate()
	if err != nil {
		return err
	}
	for name, text := range out {
		to := filepath.Join(root, "src", name)
		if name == coverageFile {
			to = filepath.Join(docs, name)
		}
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func importAll(t *Table, file string, dirs []string) error {
	if len(dirs) == 0 {
		return fmt.Errorf("-import needs folders with cuda.h: unpack the nvidia-cuda-runtime " +
			"wheels")
	}
	for _, dir := range dirs {
		h, err := ReadHeaders(dir)
		if err != nil {
			return err
		}
		t.Import(h)
	}
	var b bytes.Buffer
	if err := t.Write(&b); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}
