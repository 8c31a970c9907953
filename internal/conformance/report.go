package conformance

import (
	"fmt"
	"io"
	"maps"
	"slices"
)

// Tally counts cases by how they ended.
type Tally struct {
	Passed      int `json:"passed"`
	Failed      int `json:"failed"`
	Unsupported int `json:"unsupported"`
}

// Total is the number of cases counted.
func (t Tally) Total() int { return t.Passed + t.Failed + t.Unsupported }

// OK reports whether every case passed.
func (t Tally) OK() bool { return t.Failed == 0 && t.Unsupported == 0 }

func (t *Tally) add(s Status) {
	switch s {
	case Passed:
		t.Passed++
	case Unsupported:
		t.Unsupported++
	default:
		t.Failed++
	}
}

// Report is what became of many cases, in the form of weir verify --json.
type Report struct {
	Tally
	Cases     []Result         `json:"cases"`
	Sets      map[string]Tally `json:"sets"`      // by [Case.Set]
	Operators map[string]Tally `json:"operators"` // of the cases of one node, by [Case.Operator]
}

func (r *Report) count() {
	r.Sets, r.Operators = map[string]Tally{}, map[string]Tally{}
	for _, c := range r.Cases {
		r.add(c.Status)
		tally(r.Sets, c.Set, c.Status)
		if c.Operator != "" {
			tally(r.Operators, c.Operator, c.Status)
		}
	}
}

func tally(m map[string]Tally, key string, s Status) {
	t := m[key]
	t.add(s)
	m[key] = t
}

// Summarize writes the report for people: each case that did not pass and why, the operators that
// have such cases, the sets, and the sums.
func (r *Report) Summarize(w io.Writer) {
	for _, c := range r.Cases {
		if c.Status != Passed {
			fmt.Fprintf(w, "%s  %s: %s\n", c.Status, c.Name, c.Detail)
		}
	}
	whole := 0
	for _, name := range slices.Sorted(maps.Keys(r.Operators)) {
		if t := r.Operators[name]; t.OK() {
			whole++
		} else {
			fmt.Fprintf(w, "operator %-28s %4d of %4d cases pass\n", name, t.Passed, t.Total())
		}
	}
	fmt.Fprintf(w, "operators that pass all their own cases: %d of %d\n", whole, len(r.Operators))
	for _, name := range slices.Sorted(maps.Keys(r.Sets)) {
		t := r.Sets[name]
		fmt.Fprintf(w, "set %-20s %4d passed, %d failed, %d unsupported (%.1f %%)\n", name,
			t.Passed, t.Failed, t.Unsupported, 100*float64(t.Passed)/float64(t.Total()))
	}
	fmt.Fprintf(w, "%d passed, %d failed, %d unsupported\n", r.Passed, r.Failed, r.Unsupported)
}
