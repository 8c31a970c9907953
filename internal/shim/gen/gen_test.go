package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/parity.txt again from the CUDA headers")

func readTable(t *testing.T) *Table {
	t.Helper()
	f, err := os.Open("../calls.tab")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	table, err := ParseTable(f)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// unpacked reads an archive: how well it is compressed is not compared.
func unpacked(t *testing.T, file string) map[string][]byte {
	t.Helper()
	r, err := zip.OpenReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	all := map[string][]byte{}
	for _, f := range r.File {
		if all[f.Name], err = fs.ReadFile(r, f.Name); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestTreeIsClean holds that the committed files are what the table gives.
func TestTreeIsClean(t *testing.T) {
	table := readTable(t)
	out, err := table.Generate()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range out {
		path := filepath.Join("../src", name)
		if name == coverageFile {
			path = filepath.Join("../../../docs", name)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what calls.tab gives (%v): go generate ./internal/shim", path, err)
		}
	}
	delete(out, coverageFile)
	got := unpacked(t, filepath.Join("../src", carriedFile))
	if !maps.EqualFunc(got, out, bytes.Equal) {
		t.Errorf("%s is not what calls.tab gives: go generate ./internal/shim", carriedFile)
	}
	var b bytes.Buffer
	if err := table.Write(&b); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile("../calls.tab"); err != nil || !bytes.Equal(got, b.Bytes()) {
		t.Errorf("calls.tab is not as the generator writes it (%v): go run ./internal/shim/gen "+
			"-import DIR",
			err)
	}
}

func TestTableIsSortedForSearch(t *testing.T) {
	table := readTable(t)
	if !slices.IsSortedFunc(table.Calls, func(a, b Call) int {
		return strings.Compare(a.Symbol, b.Symbol)
	}) {
		t.Error("calls.tab is not in the order that weir_find needs")
	}
}

// TestEveryFlavourIsHandledAlike holds that no version or stream flavour of a call escapes the
// handler that its siblings have, other than the 32-bit ones of before CUDA 3.2.
func TestEveryFlavourIsHandledAlike(t *testing.T) {
	table := readTable(t)
	handled := map[string]string{}
	for _, c := range table.Calls {
		if c.Handler != "-" {
			handled[c.Base()] = c.Symbol
		}
	}
	for _, c := range table.Calls {
		if other := handled[c.Base()]; other != "" && c.Handler == "-" && c.Since >= 3020 {
			t.Errorf("%s is passed through, %s is not", c.Symbol, other)
		}
	}
}

func TestTableRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"too short", "cuInit 2000", "a call row is"},
		{"no version", "cuInit x - other - (void)", "no number"},
		{"twice", "cuInit 2000 - other - (void)\ncuInit 2000 - other - (void)", "listed twice"},
		{"flavour", "cuInit_ptsz 2000 - other - (void)", "its name says ptsz"},
		{"parameter", "cuInit 2000 - other - (unsigned)", "cannot read the parameter"},
		{"alias", "alias cuX 2000 cuY", "not listed"},
		{"type", "type X", "a type row is"},
	} {
		if _, err := ParseTable(strings.NewReader(c.text)); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	table, err := ParseTable(strings.NewReader(
		"cuA 2000 - other both (int a)\ncuB 2000 - other both (unsigned a)\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := table.Generate(); err == nil ||
		!strings.Contains(err.Error(), "differ in parameters") {
		t.Errorf("handlers of different parameters: %v", err)
	}
}

func TestHeaderConventions(t *testing.T) {
	const cuda = `
#define CUDA_VERSION 12030
#define cuMemFree cuMemFree_v2
#define cuCopy __CUDA_API_PTSZ(cuCopy_v2)
typedef struct CUstream_st *CUstream; /* a handle */
typedef enum CUkind_enum { A = 1 } CUkind;
CUresult CUDAAPI cuMemFree(CUdeviceptr dptr); // freed
CUresult CUDAAPI cuCopy(CUkind kind,
    CUstream hStream);
#if defined(__CUDA_API_VERSION_INTERNAL)
    CUresult CUDAAPI cuMemFree(CUdeviceptr_v1 dptr);
    CUresult CUDAAPI cuCopy_v2(CUkind kind, CUstream hStream);
#endif
CUresult CUDAAPI cuLast(void);
`
	const typedefs = `
typedef CUresult (CUDAAPI *PFN_cuMemFree_v3020)(CUdeviceptr_v2 dptr);
typedef CUresult (CUDAAPI *PFN_cuMemFree_v2000)(CUdeviceptr_v1 dptr);
typedef CUresult (CUDAAPI *PFN_cuCopy_v7000_ptsz)(CUkind kind, CUstream hStream);
typedef CUresult (CUDAAPI *PFN_cuCopy_v3020)(CUkind kind, CUstream hStream);
typedef CUresult (CUDAAPI *PFN_cuLast_v12030)(void);
typedef CUresult (CUDAAPI *PFN_cuElsewhere_v4000)(int a);
`
	h, err := ParseHeader(cuda, typedefs)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range h.Calls {
		got = append(got, fmt.Sprintf("%s %d %s %s", c.Symbol, c.Since, c.Flavour, c.Signature()))
	}
	slices.Sort(got)
	want := []string{
		"cuCopy_v2 3020 - (CUkind kind, CUstream hStream)",
		"cuCopy_v2_ptsz 7000 ptsz (CUkind kind, CUstream hStream)",
		"cuElsewhere 4000 - (int a)", "cuLast 12030 - (void)",
		"cuMemFree 2000 - (CUdeviceptr_v1 dptr)", "cuMemFree_v2 3020 - (CUdeviceptr dptr)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if h.Kinds["CUstream"] != "handle" || h.Kinds["CUkind"] != "int" {
		t.Errorf("kinds %v", h.Kinds)
	}
}

// fingerprint is a symbol with what its parameters are to a caller.
func fingerprint(symbol, abi string) string {
	sum := sha256.Sum256([]byte(abi))
	return symbol + " " + hex.EncodeToString(sum[:8])
}

// compare reports calls of the header that the table lacks or has otherwise.
func compare(t *testing.T, table *Table, h *Header) {
	t.Helper()
	known := map[string]*Call{}
	for i := range table.Calls {
		known[table.Calls[i].Symbol] = &table.Calls[i]
	}
	for _, c := range h.Calls {
		k := known[c.Symbol]
		switch {
		case k == nil:
			t.Errorf("CUDA %d has %s%s, calls.tab has not: go run ./internal/shim/gen "+
				"-import the headers, "+
				"and give it a handler if it takes memory or time",
				h.Version, c.Symbol, c.Signature())
		case h.ABI(k.Params) != h.ABI(c.Params):
			t.Errorf("CUDA %d: %s%s, calls.tab has %s", h.Version, c.Symbol, c.Signature(),
				k.Signature())
		case c.Since != 0 && k.Since > c.Since:
			t.Errorf("CUDA %d: %s is there since %d, calls.tab says %d", h.Version, c.Symbol,
				c.Since, k.Since)
		}
	}
}

// TestParity reads the public headers of CUDA, as the registry of Python packages carries them, and
// holds the table against them.
func TestParity(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short: downloads CUDA's headers")
	}
	table := readTable(t)
	for _, release := range releases {
		dir, err := download(t.Context(), t.TempDir(), release)
		if err != nil {
			t.Skipf("skipped: the package registry gives no %s: %v", release, err)
		}
		h, err := ReadHeaders(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(h.Calls) < 500 {
			t.Fatalf("CUDA %d: read only %d calls", h.Version, len(h.Calls))
		}
		compare(t, table, h)
		t.Logf("%s: CUDA %d, %d entry points", release, h.Version, len(h.Calls))
	}
	if *update {
		writeParity(t, table)
	}
}

const parityFile = "testdata/parity.txt"

func parityLines(table *Table) []byte {
	var b bytes.Buffer
	for i := range table.Calls {
		c := &table.Calls[i]
		var types []string
		for _, p := range c.Params {
			types = append(types, p.Type)
		}
		fmt.Fprintln(&b, fingerprint(c.Symbol, strings.Join(types, ", ")))
	}
	return b.Bytes()
}

func writeParity(t *testing.T, table *Table) {
	t.Helper()
	if t.Failed() {
		t.Fatal("not written: the table differs from the headers")
	}
	if err := os.WriteFile(parityFile, parityLines(table), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestParityOffline holds the table against what it was when TestParity last passed on the headers.
func TestParityOffline(t *testing.T) {
	want, err := os.ReadFile(parityFile)
	if err != nil {
		t.Fatal(err)
	}
	got := parityLines(readTable(t))
	if bytes.Equal(got, want) {
		return
	}
	have := map[string]bool{}
	for line := range strings.Lines(string(got)) {
		have[line] = true
	}
	for line := range strings.Lines(string(want)) {
		if !have[line] {
			t.Errorf("missing or changed: %s", strings.TrimSpace(line))
		}
	}
	t.Error("calls.tab has changed since it was compared with CUDA's headers: go test " +
		"./internal/shim/gen " +
		"-run TestParity -update")
}

// TestWhatChangesMemoryTouches holds that each call that has the device write the program's memory
// counts as one that may change it: where memory is moved to the host, what counts as unchanged is
// not copied again.
func TestWhatChangesMemoryTouches(t *testing.T) {
	writes := regexp.MustCompile(`^cu(Mem(cpy|set|BatchDecompress)|FabricCpy|Graph.*Launch|` +
		`Launch(Kernel|Cooperative|Grid|$)|Stream(Write|Wait)Value|StreamBatchMemOp)`)
	n := 0
	for _, c := range readTable(t).Calls {
		if !writes.MatchString(c.Symbol) {
			continue
		}
		n++
		if hold, _ := c.held(); hold != "\tbool held = weir_hold(true);\n" {
			t.Errorf("%s, of class %s, does not touch the program's memory", c.Symbol, c.Class)
		}
	}
	if n < 140 {
		t.Errorf("only %d calls write memory", n)
	}
}
