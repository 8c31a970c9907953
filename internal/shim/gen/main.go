package main

import (
	"archive/zip"
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

func main() {
	root := flag.String("shim", ".", "the shim's folder")
	docs := flag.String("docs", "../../docs", "where the coverage report goes")
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
	packed, err := pack(out)
	if err != nil {
		return err
	}
	out[carriedFile] = packed
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

// pack gives the archive of the C files that weir carries: uncompressed they would be a fortieth of
// the binary.
func pack(out map[string][]byte) ([]byte, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(out)) {
		if name == coverageFile {
			continue
		}
		w, err := z.Create(name)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(out[name]); err != nil {
			return nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
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
