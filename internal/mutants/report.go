package main

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// known lists the survivors that change nothing that may be relied on: the mutant, " # " and the
// reason, a line each.
//
//go:embed known.txt
var known string

// reasons reads such a list.
func reasons(text string) (map[string]string, error) {
	list := map[string]string{}
	for in := bufio.NewScanner(strings.NewReader(text)); in.Scan(); {
		line := strings.TrimSpace(in.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndex(line, " # ")
		if at < 0 {
			return nil, fmt.Errorf("known.txt: %q: want a mutant, \" # \" and a reason", line)
		}
		list[line[:at]] = line[at+3:]
	}
	return list, nil
}

// Report is the result of a run.
type Report struct {
	Seed     uint64     `json:"seed"`
	Noticed  int        `json:"noticed"`
	Of       int        `json:"of"`
	Outcomes []*Outcome `json:"mutants"`
}

// Score is the part of the mutants that a test noticed, 1 for none drawn.
func (r *Report) Score() float64 {
	if r.Of == 0 {
		return 1
	}
	return float64(r.Noticed) / float64(r.Of)
}

// Unexplained is the survivors that have no reason.
func (r *Report) Unexplained() []*Outcome {
	return slices.DeleteFunc(slices.Clone(r.Outcomes), func(o *Outcome) bool {
		return o.Noticed || o.Harmless != ""
	})
}

// WriteJSON writes all of the report.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "\t")
	return e.Encode(r)
}

// WriteTable writes how many were noticed, by target and kind, and the survivors.
func (r *Report) WriteTable(w io.Writer, targets []Target) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "target\t%s\tall\n", strings.Join(Kinds, "\t"))
	for _, target := range append(targets, Target{}) {
		fmt.Fprintf(t, "%s\t", target.Name)
		for _, kind := range append(Kinds, "") {
			noticed, of := r.count(target.Name, kind)
			fmt.Fprintf(t, "%d/%d\t", noticed, of)
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, o := range r.Outcomes {
		if !o.Noticed {
			fmt.Fprintf(w, "survived: %s # %s\n", o.Name, o.reason())
		}
	}
	_, err := fmt.Fprintf(w, "seed %d: %d of %d noticed (%.1f %%)\n", r.Seed, r.Noticed, r.Of,
		100*r.Score())
	return err
}

// reason says why a mutant survived.
func (o *Outcome) reason() string {
	switch {
	case o.Harmless == "" && !o.Reached:
		return "UNEXPLAINED, no test runs the function"
	case o.Harmless == "":
		return "UNEXPLAINED"
	}
	return o.Harmless
}

// count counts the mutants of a target and kind, "" for all.
func (r *Report) count(target, kind string) (noticed, of int) {
	for _, o := range r.Outcomes {
		if (target == "" || o.Target == target) && (kind == "" || o.Kind == kind) {
			of++
			if o.Noticed {
				noticed++
			}
		}
	}
	return noticed, of
}
