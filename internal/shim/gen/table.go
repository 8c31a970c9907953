package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Flavour is the stream that a call without a stream argument, or with a null one, means.
type Flavour string

// The flavours of an entry point: the symbol's ending, without its underscore.
const (
	Plain Flavour = "-"    // the legacy default stream, or no stream at all
	PTDS  Flavour = "ptds" // per-thread default stream, for calls without a stream argument
	PTSZ  Flavour = "ptsz" // per-thread default stream, for calls with a stream argument
)

// Param is one parameter of a signature.
type Param struct {
	Type string // in C, one space between words, stars last: "const void *"
	Name string
}

// Call is one entry point of the driver.
type Call struct {
	Symbol  string  // as exported: cuMemcpyHtoDAsync_v2_ptsz
	Since   int     // first CUDA version that has it, as in CUDA_VERSION: 12020 is 12.2
	Flavour Flavour // which default stream
	Class   string  // what kind of call, for the reader and the coverage report
	// "-": passed through; "launch(KEY,SIZE)", "copy(BYTES)", "prefetch(BYTES)": metered; else
	// weir_on_<handler>
	Handler string
	Params  []Param
}

// Type is a C type that signatures name.
type Type struct {
	Name string
	Kind string // handle, int, opaque, abi (laid out in cuda_abi.h), function, or another C type
}

// Alias is a second name under which cuGetProcAddress gives a symbol.
type Alias struct {
	Base   string
	Since  int
	Symbol string
}

// Table is calls.tab.
type Table struct {
	Preamble []string // comment lines at the top, kept as they are
	Types    []Type
	Aliases  []Alias
	Calls    []Call
}

var versionSuffix = regexp.MustCompile(`_v([0-9]+)$`)

// Base is the name under which cuGetProcAddress knows the call: no version, no flavour.
func (c *Call) Base() string {
	return versionSuffix.ReplaceAllString(c.plain(), "")
}

// Version is the number in the symbol's _vN, 1 when it has none.
func (c *Call) Version() int {
	m := versionSuffix.FindStringSubmatch(c.plain())
	if m == nil {
		return 1
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

func (c *Call) plain() string {
	return strings.TrimSuffix(strings.TrimSuffix(c.Symbol, "_ptds"), "_ptsz")
}

// Stream is the name of the stream parameter, or "".
func (c *Call) Stream() string {
	for _, p := range c.Params {
		if p.Type == "CUstream" {
			return p.Name
		}
	}
	return ""
}

// Signature is the parameter list in C.
func (c *Call) Signature() string {
	if len(c.Params) == 0 {
		return "(void)"
	}
	var parts []string
	for _, p := range c.Params {
		parts = append(parts, declare(p.Type, p.Name))
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

func declare(typ, name string) string {
	if strings.HasSuffix(typ, "*") {
		return typ + name
	}
	return typ + " " + name
}

// ParseTable reads calls.tab. An error names the line.
func ParseTable(r io.Reader) (*Table, error) {
	t := &Table{}
	in := bufio.NewScanner(r)
	for n := 1; in.Scan(); n++ {
		if err := t.parseLine(in.Text()); err != nil {
			return nil, fmt.Errorf("calls.tab:%d: %w", n, err)
		}
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("calls.tab: %w", err)
	}
	return t, t.check()
}

func (t *Table) parseLine(line string) error {
	f := strings.Fields(line)
	switch {
	case len(f) == 0:
		return nil
	case strings.HasPrefix(line, "#"):
		t.Preamble = append(t.Preamble, line)
		return nil
	case f[0] == "type":
		if len(f) < 3 {
			return fmt.Errorf("a type row is: type NAME KIND")
		}
		t.Types = append(t.Types, Type{f[1], strings.Join(f[2:], " ")})
		return nil
	case f[0] == "alias":
		if len(f) != 4 {
			return fmt.Errorf("an alias row is: alias BASE SINCE SYMBOL")
		}
		since, err := strconv.Atoi(f[2])
		t.Aliases = append(t.Aliases, Alias{f[1], since, f[3]})
		return err
	}
	return t.parseCall(line, f)
}

func (t *Table) parseCall(line string, f []string) error {
	open := strings.Index(line, " (")
	if len(f) < 6 || open < 0 {
		return fmt.Errorf("a call row is: SYMBOL SINCE FLAVOUR CLASS HANDLER (PARAMETERS)")
	}
	since, err := strconv.Atoi(f[1])
	if err != nil {
		return fmt.Errorf("%s: first CUDA version %q is no number", f[0], f[1])
	}
	params, err := parseParams(strings.TrimSpace(line[open+1:]))
	if err != nil {
		return fmt.Errorf("%s: %w", f[0], err)
	}
	t.Calls = append(t.Calls, Call{f[0], since, Flavour(f[2]), f[3], f[4], params})
	return nil
}

func (t *Table) check() error {
	seen := map[string]bool{}
	for _, c := range t.Calls {
		if seen[c.Symbol] {
			return fmt.Errorf("calls.tab: %s is listed twice", c.Symbol)
		}
		seen[c.Symbol] = true
		want := Plain
		switch {
		case strings.HasSuffix(c.Symbol, "_ptds"):
			want = PTDS
		case strings.HasSuffix(c.Symbol, "_ptsz"):
			want = PTSZ
		}
		if c.Flavour != want {
			return fmt.Errorf("calls.tab: %s: flavour %s, its name says %s", c.Symbol, c.Flavour,
				want)
		}
	}
	for _, a := range t.Aliases {
		if !seen[a.Symbol] {
			return fmt.Errorf("calls.tab: alias %s names %s, which is not listed", a.Base, a.Symbol)
		}
	}
	return nil
}

var paramPattern = regexp.MustCompile(`^(.*?[\s*])([A-Za-z_][A-Za-z0-9_]*)$`)

// parseParams reads "(T a, U *b)". Parameters of function or array type are not in the driver's
// API.
func parseParams(s string) ([]Param, error) {
	inner, ok := strings.CutPrefix(s, "(")
	inner, ok2 := strings.CutSuffix(inner, ")")
	if !ok || !ok2 {
		return nil, fmt.Errorf("no parameter list in %q", s)
	}
	if strings.TrimSpace(inner) == "" || strings.TrimSpace(inner) == "void" {
		return nil, nil
	}
	var out []Param
	for part := range strings.SplitSeq(inner, ",") {
		m := paramPattern.FindStringSubmatch(strings.TrimSpace(part))
		if m == nil {
			return nil, fmt.Errorf("cannot read the parameter %q", part)
		}
		out = append(out, Param{normalType(m[1]), m[2]})
	}
	return out, nil
}

func normalType(s string) string {
	stars := strings.Count(s, "*")
	words := strings.Join(strings.Fields(strings.ReplaceAll(s, "*", " ")), " ")
	if stars == 0 {
		return words
	}
	return words + " " + strings.Repeat("*", stars)
}

// Write gives the table in the order types, aliases, calls, each sorted by name.
func (t *Table) Write(w io.Writer) error {
	slices.SortFunc(t.Types, func(a, b Type) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(t.Calls, func(a, b Call) int { return cmp.Compare(a.Symbol, b.Symbol) })
	b := bufio.NewWriter(w)
	for _, line := range t.Preamble {
		fmt.Fprintln(b, line)
	}
	fmt.Fprintln(b)
	for _, x := range t.Types {
		fmt.Fprintf(b, "type %-40s %s\n", x.Name, x.Kind)
	}
	fmt.Fprintln(b)
	for _, x := range t.Aliases {
		fmt.Fprintf(b, "alias %s %d %s\n", x.Base, x.Since, x.Symbol)
	}
	fmt.Fprintln(b)
	for _, c := range t.Calls {
		fmt.Fprintf(b, "%-44s %5d %-4s %-8s %-36s %s\n", c.Symbol, c.Since, c.Flavour, c.Class,
			c.Handler, c.Signature())
	}
	return b.Flush()
}
