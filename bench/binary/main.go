// Command binary builds the weir that is given to people, one file without anything beside it, and
// holds what is promised of it: no more megabytes than the limit, and nothing that the host has to
// bring.
//
//	go run ./bench/binary            # builds, checks, and lists what takes most of the file
//	go run ./bench/binary -json
//
// It exits with 1 if the file is larger than the limit or not static, with 2 if it cannot be built.
package main

import (
	"cmp"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirgpu/weir/internal/claims"
)

// megabyte is the unit of the limit.
const megabyte = 1e6

// report is what is found about a binary.
type report struct {
	Bytes      int64  `json:"bytes"`
	LimitBytes int64  `json:"limit_bytes"`
	Needs      string `json:"needs"` // what the host must bring; empty for a static binary
	Parts      []part `json:"parts"` // code and data by Go package, the largest first
	Held       bool   `json:"held"`
}

// part is a Go package's code and data in the binary, or those that the linker makes for all.
type part struct {
	Package string `json:"package"`
	Bytes   int64  `json:"bytes"`
}

func main() {
	limit := flag.Float64("limit", 30, "most `MB` (of 10^6 bytes) that the binary may have")
	asJSON := flag.Bool("json", false, "print one JSON object")
	flag.Parse()
	r, err := measure(int64(*limit * megabyte))
	if err != nil {
		fmt.Fprintln(os.Stderr, "binary:", err)
		os.Exit(2)
	}
	const command claims.Command = "binary"
	if !*asJSON {
		command.Check(r.print(os.Stdout))
	}
	command.Finish(r, *asJSON, r.Held)
}

// measure builds the binary as the README says, and once more with the symbols that tell what is in
// it.
func measure(limit int64) (*report, error) {
	dir, err := os.MkdirTemp("", "weir-binary-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	stripped, whole := filepath.Join(dir, "weir"), filepath.Join(dir, "symbols")
	if err := errors.Join(build(stripped, "-s -w"), build(whole, "-w")); err != nil {
		return nil, err
	}
	info, err := os.Stat(stripped)
	if err != nil {
		return nil, err
	}
	r := &report{Bytes: info.Size(), LimitBytes: limit}
	if r.Needs, err = needs(stripped); err != nil {
		return nil, err
	}
	if r.Parts, err = parts(whole, r.Bytes); err != nil {
		return nil, err
	}
	r.Held = r.Needs == "" && r.Bytes <= limit
	return r, nil
}

func build(out, ldflags string) error {
	c := exec.Command("deploy/static.sh", out, ldflags)
	if said, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", c, err, said)
	}
	return nil
}

// needs says what an ELF file asks the host for: an interpreter or shared libraries.
func needs(path string) (string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var list []string
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		name, err := io.ReadAll(p.Open())
		if err != nil {
			return "", err
		}
		list = append(list, strings.TrimRight(string(name), "\x00"))
	}
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return "", err
	}
	return strings.Join(append(list, libraries...), ", "), nil
}

// parts adds up by package the symbols of a file that lie in it. What is left of total bytes has no
// symbol.
func parts(path string, total int64) ([]part, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		return nil, err
	}
	sum := map[string]int64{}
	for _, s := range symbols {
		if int(s.Section) < len(f.Sections) && f.Sections[s.Section].Type == elf.SHT_PROGBITS {
			sum[packageOf(s.Name)] += int64(s.Size)
		}
	}
	if table := f.Section(".gopclntab"); table != nil {
		sum["(the linker's tables of functions and lines)"] += int64(table.FileSize)
	}
	var list []part
	for name, n := range sum {
		total -= n
		list = append(list, part{name, n})
	}
	list = append(list,
		part{"(without a symbol: descriptions of types, names, padding)", max(0, total)})
	slices.SortFunc(
		list,
		func(a, b part) int {
			return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Package, b.Package))
		},
	)
	return list, nil
}

// packageOf returns the package of a symbol: what is before the first dot after the last slash of
// its path, type arguments left out. Symbols such as "go:func.*" and "type:..." are the linker's.
func packageOf(symbol string) string {
	name, _, _ := strings.Cut(symbol, "[")
	if strings.HasPrefix(name, "go:") || strings.HasPrefix(name, "type:") {
		return "(the linker's descriptions of types and functions)"
	}
	name, _, _ = strings.Cut(name, "(")
	slash := strings.LastIndexByte(name, '/') + 1
	base, _, _ := strings.Cut(name[slash:], ".")
	return strings.ReplaceAll(name[:slash]+base, "%2e", ".")
}

const listed = 15

func (r *report) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%.1f MB, limit %.1f\n", float64(r.Bytes)/megabyte,
		float64(r.LimitBytes)/megabyte)
	for _, p := range r.Parts[:min(listed, len(r.Parts))] {
		fmt.Fprintf(&b, "%8.2f MB  %s\n", float64(p.Bytes)/megabyte, p.Package)
	}
	if r.Needs != "" {
		fmt.Fprintf(
			&b,
			"NOT STATIC: it needs %s: a package of the build uses cgo or a dynamic import; keep "+
				"it out with a build tag\n",
			r.Needs,
		)
	}
	if r.Bytes > r.LimitBytes {
		b.WriteString(
			"TOO LARGE: see above for what takes most, and go list -deps for who imports it\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
