package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// coverage writes docs/cuda-coverage.md.
func (t *Table) coverage() []byte {
	var b bytes.Buffer
	byClass := map[string][]Call{}
	handled := 0
	for _, c := range t.Calls {
		byClass[c.Class] = append(byClass[c.Class], c)
		if c.Handler != "-" {
			handled++
		}
	}
	fmt.Fprintf(&b, "# CUDA driver calls under `weir exec`\n\n")
	fmt.Fprintf(&b,
		"Generated from `internal/shim/calls.tab` by `go generate ./internal/shim`.\n\n")
	fmt.Fprintf(&b, "%d entry points of the driver, of CUDA up to %d.%d, are listed; %d of them "+
		"are counted or metered, and the\nothers are passed through unchanged. A call that is not "+
		"listed reaches the driver too.\n\n",
		len(t.Calls), t.newest()/1000, t.newest()%1000/10, handled)
	b.WriteString("| class | entry points | counted or metered | passed through |\n| --- | --- | " +
		"--- | --- |\n")
	for _, class := range slices.Sorted(maps.Keys(byClass)) {
		n := 0
		for _, c := range byClass[class] {
			if c.Handler != "-" {
				n++
			}
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d |\n", class, len(byClass[class]), n,
			len(byClass[class])-n)
	}
	b.WriteString("\n## Counted or metered\n\n| symbol | since | how |\n| --- | --- | --- |\n")
	for _, c := range t.Calls {
		if c.Handler != "-" {
			fmt.Fprintf(&b, "| `%s` | %d.%d | %s |\n", c.Symbol, c.Since/1000, c.Since%1000/10,
				how(c.Handler))
		}
	}
	b.WriteString("\n## Passed through\n\n")
	for _, class := range slices.Sorted(maps.Keys(byClass)) {
		var names []string
		for _, c := range byClass[class] {
			if c.Handler == "-" {
				names = append(names, "`"+c.Symbol+"`")
			}
		}
		if len(names) > 0 {
			fmt.Fprintf(&b, "%s: %s.\n\n", class, strings.Join(names, ", "))
		}
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

func how(handler string) string {
	m := meteredPattern.FindStringSubmatch(handler)
	switch {
	case m == nil:
		return "`" + handler + "`"
	case m[1] != "launch":
		return m[1] + ", metered when large"
	}
	return "launch, metered"
}
