// Command table writes docs/operators.md, the table of the operators that weir has: their versions, whether the CPU has a
// fast kernel, and how many of the ONNX project's cases they pass. Run it in the root of the repository:
//
//	go run ./conformance/table > docs/operators.md
//
// It counts the cases of the backend tests, which package archive finds, less those of conformance/unsupported.txt; a test of
// this package fails when the page is out of date.
//
// Concurrency: one goroutine.
//
// What it refuses: to write without the backend tests, or by a list that it cannot read.
package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weirgpu/weir/conformance"
	"github.com/weirgpu/weir/conformance/archive"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/op"
)

func main() {
	w := bufio.NewWriter(os.Stdout)
	dir, err := archive.BackendTests()
	if err == nil {
		err = write(w, ".", dir)
	}
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

const intro = `# Operators

Made by ` + "`go run ./conformance/table > docs/operators.md`" + `; do not edit.

**Versions** are the opset versions whose definitions weir implements. Those of opset 1 to 6 that only worded the same otherwise are
rewritten as a model is read. A model of an opset that is newer than %d, the newest that weir knows, runs each operator by the newest of
its definitions here, and weir.Model.Warnings and ` + "`weir inspect`" + ` say so. Attributes that ONNX does not give an operator in the model's
opset are refused, but for names that begin with an underscore.
**CPU kernel** tells whether the CPU has a fast kernel for the usual types and attributes; a view moves no bytes and needs none.
Every other call runs by the reference evaluation, which is the operator's definition. **Cases** counts the single-operator cases of
the ONNX project's backend tests (%d of them) that the reference evaluation passes; most that it does not pass use element types
that weir does not have, or training.
`

// write writes the table of the repository whose root is given, with the cases below dir.
func write(w io.Writer, root, dir string) error {
	cases, err := count(filepath.Join(root, "conformance", "unsupported.txt"), dir)
	if err != nil {
		return err
	}
	total := 0
	for _, c := range cases {
		total += c.Total()
	}
	fmt.Fprintf(w, intro, op.NewestOpset(""), total)
	byDomain := map[string][]*op.Op{}
	for _, o := range op.All() {
		byDomain[o.Domain] = append(byDomain[o.Domain], o)
	}
	for _, domain := range slices.Sorted(maps.Keys(byDomain)) {
		rows(w, domain, byDomain[domain], cases)
	}
	return missing(w, cases)
}

// count counts the node cases below dir by operator; those that do not pass are in a list.
func count(list, dir string) (map[string]conformance.Tally, error) {
	f, err := os.Open(list)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	missing, err := conformance.ReadExpected(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", list, err)
	}
	found, err := conformance.Find(dir)
	if err != nil {
		return nil, err
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
		if slices.ContainsFunc(missing, func(e conformance.Expected) bool { return e.Name == c.Name }) {
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
func rows(w io.Writer, domain string, all []*op.Op, cases map[string]conformance.Tally) {
	title := titles[domain]
	if title == "" {
		title = domain
	}
	fmt.Fprintf(w, "\n## %s\n\n| operator | versions | CPU kernel | cases |\n| --- | --- | --- | --- |\n", title)
	kernels := cpu.Kernels()
	for _, o := range all {
		call := op.Call{Domain: o.Domain, Type: o.Name}
		kernel := ""
		switch {
		case slices.Contains(kernels, call.Name()):
			kernel = "yes"
		case o.Has(op.View):
			kernel = "view"
		}
		ran := ""
		if c := cases[call.Name()]; c.Total() > 0 {
			ran = fmt.Sprintf("%d of %d", c.Passed, c.Total())
		}
		delete(cases, call.Name())
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", o.Name, versions(append(o.Raised(), o.Since...)), kernel, ran)
	}
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
  through operators without a rule in onnx/derivative.go.
`

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
		fmt.Fprintf(w, "Operators of the ONNX project's cases that weir does not have, with the number of their cases:\n\n%s.\n\n",
			strings.Join(names, ",\n"))
	}
	fmt.Fprint(w, "Refused, with the reason:\n\n")
	why := op.Refused()
	for _, name := range slices.Sorted(maps.Keys(why)) {
		fmt.Fprintf(w, "- %s: %s.\n", name, why[name])
	}
	_, err := fmt.Fprint(w, notes)
	return err
}
