package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/internal/terminal"
	"github.com/weirgpu/weir/tensor"
)

// outputResult is one output of a run.
type outputResult struct {
	Name  string `json:"name"`
	DType string `json:"dtype"`
	Shape []int  `json:"shape"`
	File  string `json:"file"` // "" when it was not written
	// Values are the elements in row-major order of an output that has few, and Statistics tell of
	// one that has many. Numbers that JSON has no form for are strings: "NaN", "+Inf", "-Inf".
	Values     []any       `json:"values,omitempty"`
	Statistics *statistics `json:"statistics,omitempty"`
	// Top are, for each row of the last axis, its greatest elements.
	Top [][]ranked `json:"top,omitempty"`
}

// statistics are about the finite elements of an output, and the number of the others.
type statistics struct {
	Min       float64 `json:"min"`
	Max       float64 `json:"max"`
	Mean      float64 `json:"mean"`
	Std       float64 `json:"std"` // of the population
	NotFinite int     `json:"not_finite"`
}

// ranked is one of the greatest elements of a row.
type ranked struct {
	Index int    `json:"index"`
	Label string `json:"label,omitempty"`
	Value any    `json:"value"`
}

// outputFlags say how outputs are shown.
type outputFlags struct {
	values, top int
	labels      string

	names []string // of labels
}

func (f *outputFlags) add(c *cobra.Command) {
	c.Flags().
		IntVar(&f.values, "values", 8, "elements of each output that are printed; --json has "+
			"all of outputs with up to 256 elements, or as many as this says")
	c.Flags().
		IntVar(&f.top, "top", 0, "show the greatest so many elements of each row of the last axis "+
			"(5 with --labels)")
	c.Flags().
		StringVar(&f.labels, "labels", "", "`FILE` with the names of a row's elements, one a line")
}

// check reads the labels.
func (f *outputFlags) check(c *cobra.Command) error {
	if f.values < 0 || f.top < 0 {
		return fmt.Errorf("--values %d --top %d: want 0 or more", f.values, f.top)
	}
	if f.labels == "" {
		return nil
	}
	names, err := fault.Await(c.Context(), func() ([]string, error) { return readLines(f.labels) })
	if err != nil {
		return fmt.Errorf("--labels: %w", err)
	}
	f.names = names
	if len(f.names) == 0 {
		return fmt.Errorf("--labels %s: it is empty", f.labels)
	}
	if f.top == 0 {
		f.top = 5
	}
	return nil
}

// readLines returns the lines of a file, without the space around them.
func readLines(path string) ([]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []string
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		all = append(all, strings.TrimSpace(lines.Text()))
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

// describe adds to results what the flags ask for. It fails where labels are for no output.
func (f *outputFlags) describe(results []outputResult, outs []*tensor.Tensor) error {
	const inJSON = 256
	ranked := 0
	for k, t := range outs {
		if t.DType.IsContainer() {
			continue
		}
		o := &results[k]
		if t.Len() <= max(inJSON, f.values) {
			o.Values = elements(t, t.Len())
		} else if values, err := t.Floats(); err == nil {
			o.Statistics = summary(values)
		}
		o.Top = f.rank(t)
		ranked += len(o.Top)
	}
	if f.top > 0 && ranked == 0 {
		if len(f.names) > 0 {
			return fmt.Errorf("--labels %s: has %d lines, and no output has so many elements in a "+
				"row", f.labels, len(f.names))
		}
		return errors.New("--top: no output has rows of numbers")
	}
	return nil
}

// elements are the first n elements of t in a form that JSON has.
func elements(t *tensor.Tensor, n int) []any {
	out := make([]any, min(n, t.Len()))
	for i := range out {
		out[i] = plainNumber(t.At(i))
	}
	return out
}

// plainNumber is v, or its text where JSON has no form for it.
func plainNumber(v any) any {
	switch x := v.(type) {
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Sprint(x)
		}
	case float32:
		if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Sprint(x)
		}
	case complex64, complex128:
		return fmt.Sprint(x)
	}
	return v
}

func summary(values []float64) *statistics {
	s := &statistics{Min: math.Inf(1), Max: math.Inf(-1)}
	n, square := 0.0, 0.0
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			s.NotFinite++
			continue
		}
		n++
		s.Min, s.Max = min(s.Min, v), max(s.Max, v)
		step := v - s.Mean // B. P. Welford, Technometrics 4 (1962)
		s.Mean += step / n
		square += step * (v - s.Mean)
	}
	if n == 0 {
		return &statistics{NotFinite: s.NotFinite}
	}
	s.Std = math.Sqrt(square / n)
	return s
}

// rank finds the greatest elements of each row; none where labels are for rows of another length.
func (f *outputFlags) rank(t *tensor.Tensor) [][]ranked {
	rank := t.Rank()
	if f.top == 0 || rank == 0 || t.Len() == 0 {
		return nil
	}
	n := t.Shape[rank-1]
	values, err := t.Floats()
	if err != nil || len(f.names) > 0 && len(f.names) != n {
		return nil
	}
	var rows [][]ranked
	for from := 0; from < len(values); from += n {
		rows = append(rows, f.best(t, from, values[from:][:n]))
	}
	return rows
}

// best are the greatest of a row of t, which begins at an element, with their labels.
func (f *outputFlags) best(t *tensor.Tensor, from int, row []float64) (top []ranked) {
	order := make([]int, len(row))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(row[b], row[a]) })
	for _, i := range order[:min(f.top, len(row))] {
		r := ranked{Index: i, Value: plainNumber(t.At(from + i))}
		if len(f.names) > 0 {
			r.Label = f.names[i]
		}
		top = append(top, r)
	}
	return top
}

// print writes a line for each output, or its greatest elements.
func (f *outputFlags) print(w io.Writer, results []outputResult, outs []*tensor.Tensor) {
	const most = 8 // rows that are printed of an output
	for k := range results {
		o := &results[k]
		line := fmt.Sprintf("%s\t%s\t%v\t%s", o.Name, o.DType, o.Shape, f.preview(o, outs[k]))
		line = strings.TrimRight(line, "\t")
		if terminal.Width(w) > 0 { // which programs that take columns apart do not have
			line = strings.ReplaceAll(line, "\t", "  ")
		}
		say(w, "%s", line)
		for i, row := range o.Top {
			if i == most {
				fmt.Fprintf(w, "and %d more rows: --json has all\n", len(o.Top)-most)
				break
			}
			if len(o.Top) > 1 {
				fmt.Fprintf(w, "row %d\n", i)
			}
			for _, r := range row {
				say(w, "%s", strings.TrimRight(fmt.Sprintf("%12.6v  %6d  %s", r.Value, r.Index,
					r.Label), " "))
			}
		}
	}
}

// preview shows where an output went, or its first elements.
func (f *outputFlags) preview(o *outputResult, t *tensor.Tensor) string {
	switch {
	case o.File != "":
		return o.File
	case t.DType.IsContainer():
		return t.String()
	case len(o.Top) > 0:
		return ""
	}
	var b strings.Builder
	for i := range min(t.Len(), f.values) {
		fmt.Fprintf(&b, "%v ", t.At(i))
	}
	if t.Len() > f.values {
		b.WriteString("...")
	}
	return b.String()
}
