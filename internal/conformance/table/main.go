// Command table writes docs/operators.md, the table of the operators that weir has: their versions,
// element types and devices, and how many of the ONNX project's cases they pass. Run it in the root
// of the repository:
//
//	go run ./internal/conformance/table -o docs/operators.md
//
// It counts the cases of the backend tests, which package archive finds, less those of
// internal/conformance/unsupported.txt; a test of this package fails when the page is out of date.
//
// Concurrency: one goroutine.
//
// What it refuses: to write without the backend tests, or by a list that it cannot read.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/internal/conformance"
	"github.com/weirgpu/weir/internal/conformance/archive"
	"github.com/weirgpu/weir/internal/op"
)

func main() {
	output := flag.String("o", "", "write to this file, which is left as it is on any error; "+
		"without it, to standard output")
	flag.Parse()
	if err := run(*output, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

// run makes the page of the repository in the working directory, and writes it to a file in one
// step, or to stdout for "".
func run(output string, stdout io.Writer) error {
	dir, err := archive.BackendTests()
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := write(&page, ".", dir); err != nil {
		return err
	}
	if output == "" {
		_, err := stdout.Write(page.Bytes())
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(output), ".table-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(page.Bytes())
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), output)
}

const intro = `# Operators

Made by ` + "`go run ./internal/conformance/table -o docs/operators.md`" + `; do not edit.

**Versions** are the opset versions whose definitions weir implements. Those of opset 1 to 6 that only worded the same otherwise are
rewritten as a model is read. A model of an opset that is newer than %d, the newest that weir knows, runs each operator by the newest of
its definitions here, and weir.Model.Warnings and ` + "`weir inspect`" +
	` say so. Attributes that ONNX does not give an operator in the model's
opset are refused, but for names that begin with an underscore.
**Types** are the element types of the first operand and, where they are others, after an arrow those of the first result. They are
found by running: the calls of the ONNX project's cases and of weir's own are made again with operands of every type and with every
type in the attributes that name one, and a type is listed when the shape rule and the evaluation take it. Some are more than ONNX
names. **float\*** are float16, bfloat16, float32 and float64; **int\*** and **uint\*** those of 8 to 64 bits; **complex\*** complex64 and
complex128; **f8\*** float8e4m3fn, float8e4m3fnuz, float8e5m2 and float8e5m2fnuz; **4-bit** float4e2m1, int4 and uint4; **2-bit** int2
and uint2; **any** all of these with bool, string and float8e8m0.
**Devices**: cpu runs every operator, by the reference evaluation, which is the operator's definition; *kernel* says that it has a
fast kernel for the usual types and attributes, and a *view* moves no bytes and needs none. **Cases** counts the single-operator cases of
the ONNX project's backend tests (%d of them, edition %s) that the reference evaluation passes; internal/conformance/unsupported.txt says why it does
not pass the others.
`

// write writes the table of the repository whose root is given, with the cases below dir.
func write(w io.Writer, root, dir string) error {
	found, err := conformance.Find(dir)
	if err != nil {
		return err
	}
	cases, err := count(filepath.Join(root, "internal", "conformance", "unsupported.txt"), found)
	if err != nil {
		return err
	}
	total := 0
	for _, c := range cases {
		total += c.Total()
	}
	fmt.Fprintf(w, intro, op.NewestOpset(""), total, conformance.Edition(found))
	taken, err := types(root, dir)
	if err != nil {
		return err
	}
	byDomain := map[string][]*op.Op{}
	for _, o := range op.All() {
		byDomain[o.Domain] = append(byDomain[o.Domain], o)
	}
	for _, domain := range slices.Sorted(maps.Keys(byDomain)) {
		rows(w, domain, byDomain[domain], cases, taken)
	}
	gradients(w)
	return missing(w, cases)
}

// count counts the node cases found by operator; those that do not pass are in a list.
func count(list string, found []*conformance.Case) (map[string]conformance.Tally, error) {
	f, err := os.Open(list)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	missing, err := conformance.ReadExpected(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", list, err)
	}
	cases := map[string]conformance.Tally{}
	for _, c := range found {
		name, err := c.Operator()
		if err != nil {
			return nil, err
		}
		if name == "" || c.Set != "node" {
			continue
		}
		t := cases[name]
		if slices.ContainsFunc(missing,
			func(e conformance.Expected) bool { return e.Name == c.Name }) {
			t.Unsupported++
		} else {
			t.Passed++
		}
		cases[name] = t
	}
	return cases, nil
}

// titles names the domains whose names say little.
var titles = map[string]string{
	"":             "ONNX",
	op.FusedDomain: "weir: made by passes of several ONNX operators",
}

// rows writes the operators of one domain, and takes theirs out of cases.
func rows(w io.Writer, domain string, all []*op.Op, cases map[string]conformance.Tally,
	taken map[string]*taken) {
	title := titles[domain]
	if title == "" {
		title = domain
	}
	fmt.Fprintf(w,
		"\n## %s\n\n| operator | versions | types | devices | cases |\n| --- | --- | --- | --- | "+
			"--- |\n", title)
	kernels := kernels.Operators()
	for _, o := range all {
		call := op.Call{Domain: o.Domain, Type: o.Name}
		ran := ""
		if c := cases[call.Name()]; c.Total() > 0 {
			ran = fmt.Sprintf("%d of %d", c.Passed, c.Total())
		}
		delete(cases, call.Name())
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", o.Name,
			versions(append(o.Raised(), o.Since...)), taken[call.Name()],
			devices(o, slices.Contains(kernels, call.Name())), ran)
	}
}

// devices says where an operator runs, and how.
func devices(o *op.Op, kernel bool) string {
	switch {
	case kernel:
		return "cpu, kernel"
	case o.Has(op.View):
		return "cpu, view"
	}
	return "cpu"
}

func versions(since []int) string {
	text := make([]string, len(since))
	for i, v := range since {
		text[i] = strconv.Itoa(v)
	}
	return strings.Join(text, ", ")
}

// notes are refusals of a part of an operator.
const notes = `- ImageDecoder of JPEG 2000: there is no maintained decoder in Go.
- ai.onnx.preview.training:Gradient is replaced by nodes that compute the derivatives as a model is read; it is refused in bodies, and
  through operators without gradients (above).
`

// gradients writes which operators package grad goes through.
func gradients(w io.Writer) {
	var through, flat []string
	for _, o := range op.All() {
		name := (&op.Call{Domain: o.Domain, Type: o.Name}).Name()
		switch o.Differentiability() {
		case op.ByRule, op.ByParts, op.ByBodies:
			through = append(through, name)
		case op.Flat:
			flat = append(flat, name)
		}
	}
	fmt.Fprintf(w, "\n## Gradients\n\n"+
		"Package grad differentiates through %d operators; tests hold each of ONNX's against "+
		"central differences, and those of com.microsoft are differentiated through what they "+
		"are made of, where that has gradients:\n\n%s.\n\n"+
		"Derivatives are zero, wherever they exist, of\n\n%s.\n\n"+
		"Through any other it is an error.\n", len(through),
		strings.Join(through, ",\n"), strings.Join(flat, ",\n"))
}

// missing writes the operators of the cases that are left.
func missing(w io.Writer, cases map[string]conformance.Tally) error {
	fmt.Fprint(w, "\n## Not there\n\n")
	var names []string
	for name, c := range cases {
		text := fmt.Sprintf("%s (%d)", name, c.Total())
		if c.Passed > 0 {
			text = fmt.Sprintf("%s (%d, of which %d pass as functions)", name, c.Total(), c.Passed)
		}
		names = append(names, text)
	}
	slices.Sort(names)
	if len(names) > 0 {
		fmt.Fprintf(w,
			"Operators of the ONNX project's cases that weir does not have, with the number of "+
				"their cases:\n\n%s.\n\n", strings.Join(names, ",\n"))
	}
	fmt.Fprint(w, "Refused, with the reason:\n\n")
	why := op.Refused()
	for _, name := range slices.Sorted(maps.Keys(why)) {
		fmt.Fprintf(w, "- %s: %s.\n", name, why[name])
	}
	_, err := fmt.Fprint(w, notes)
	return err
}
