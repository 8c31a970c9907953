package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// table writes the results as Markdown: a line for each program, with a cell for each profile.
func table(w io.Writer, all []result) error {
	fmt.Fprintf(w, "# NVIDIA's own software on the simulated driver, with and without weir\n\n"+
		"%s. The device is simulated and computes nothing: what kernels would work out is\n"+
		"not printed. Under weir a program has %d of the device's %d GiB. *Equal* is line by\n"+
		"line, but for sizes of memory, which show the cap; *held* is device memory when both\n"+
		"have ended, none unless a cell names it. The columns are profiles of the device.\n\n"+
		"| rung | artefact | program |%s\n| --- | --- | --- |%s\n",
		time.Now().UTC().Format("2006-01-02"), capBytes>>30, deviceBytes>>30,
		cells(profiles, func(p string) string { return p }),
		cells(profiles, func(string) string { return "---" }))
	for _, row := range rows(all) {
		fmt.Fprintf(w, "| %d | %s | %s |%s\n", row[0].Rung, row[0].Artefact, row[0].Program,
			cells(profiles, func(p string) string {
				i := slices.IndexFunc(row, func(r result) bool { return r.Profile == p })
				if i < 0 {
					return "not run"
				}
				return row[i].cell()
			}))
	}
	refused, absent := map[string][]string{}, map[string]bool{}
	for _, r := range all {
		for _, x := range r.Refused {
			refused[x] = append(refused[x], r.Artefact)
		}
		for _, x := range r.Absent {
			absent[x] = true
		}
	}
	fmt.Fprintf(w, "\n## What was asked for and is refused\n\n"+
		"Export tables, their slots and attributes that the simulated driver does not know:\n\n")
	for _, x := range sorted(refused) {
		by := refused[x]
		slices.Sort(by)
		fmt.Fprintf(w, "- %s, by\n", x)
		for _, artefact := range slices.Compact(by) {
			fmt.Fprintf(w, "  - %s\n", artefact)
		}
	}
	_, err := fmt.Fprintf(w, "\nCalls that are looked up by name and that it lacks (%d):\n\n%s",
		len(absent), wrapped(sorted(absent)))
	return err
}

// cells is the end of a line of a table.
func cells(columns []string, text func(column string) string) string {
	var line strings.Builder
	for _, c := range columns {
		fmt.Fprintf(&line, " %s |", text(c))
	}
	return line.String()
}

// rows puts the results of each program together, in the order of the first ones.
func rows(all []result) [][]result {
	var rows [][]result
	at := map[string]int{}
	for _, r := range all {
		name := fmt.Sprint(r.Rung, r.Artefact, "\x00", r.Program)
		i, there := at[name]
		if !there {
			i = len(rows)
			at[name] = i
			rows = append(rows, nil)
		}
		rows[i] = append(rows[i], r)
	}
	return rows
}

// cell is what came of a program.
func (r result) cell() string {
	same := fmt.Sprintf("%d lines equal", strings.Count(r.Without.Output, "\n"))
	if len(r.Differs) > 0 {
		same = strings.Join(r.Differs, "; ")
	}
	exit := fmt.Sprintf("exit %d", r.Without.Exit)
	if r.Under.Exit != r.Without.Exit {
		exit += fmt.Sprintf(", under weir %d", r.Under.Exit)
	}
	if r.Exit != r.Without.Exit || r.Exit != r.Under.Exit {
		exit += fmt.Sprintf(" and not %d", r.Exit)
	}
	if r.Left > 0 {
		same += fmt.Sprintf(", %d B held", r.Left)
	}
	return exit + ", " + same
}

// wrapped lists names in lines of at most 100 characters.
func wrapped(names []string) string {
	var text, line string
	for _, name := range names {
		if len(line)+len(name)+2 > 100 {
			text += strings.TrimSuffix(line, " ") + "\n"
			line = ""
		}
		line += name + ", "
	}
	return text + strings.TrimSuffix(line, ", ") + "\n"
}

func sorted[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
