package roofline

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/internal/sorting"
	"github.com/weirgpu/weir/plan"
)

// Work is how long something took beside what it had to do.
type Work struct {
	MS         float64 `json:"ms"`
	Share      float64 `json:"share"` // of the time of all steps
	Flops      int64   `json:"flops"`
	Bytes      int64   `json:"bytes"`
	GFlopsPerS float64 `json:"gflops_per_s"`
	GBPerS     float64 `json:"gb_per_s"`
	Intensity  float64 `json:"flops_per_byte"`
	// LeastMS is the time that the machine needs for as much work, and OfLimit the part of MS that
	// this is: 1 is the roofline. Both are 0 where there is no work, or where no limits are known
	// (Machine.Known).
	LeastMS float64 `json:"least_ms"`
	OfLimit float64 `json:"of_limit"`
}

// rates fills in what follows from times and work.
func (w *Work) rates(total float64) {
	if total > 0 {
		w.Share = w.MS / total
	}
	if w.MS > 0 {
		w.GFlopsPerS, w.GBPerS, w.OfLimit = float64(w.Flops)/w.MS/1e6, float64(w.Bytes)/w.MS/1e6,
			w.LeastMS/w.MS
	}
	if w.Bytes > 0 {
		w.Intensity = float64(w.Flops) / float64(w.Bytes)
	}
}

// The values of Step.LimitedBy.
const (
	ByCompute = "compute"
	ByMemory  = "memory"
)

// Step is one step of the plan.
type Step struct {
	Node   string `json:"node"`
	Op     string `json:"op"`
	Kernel string `json:"kernel"`
	Format Format `json:"precision"`
	// Measured says that the kernel computes in the way that was measured to be the fastest
	// (package internal/tune), not the one that a cost model chose.
	Measured bool `json:"measured"`
	// Taken is the operations that the kernel takes, where its algorithm needs fewer than Flops,
	// and 0 elsewhere. LeastMS is the time of these.
	Taken int64 `json:"flops_taken,omitempty"`
	Work
	// LimitGFlopsPerS is min(peak, GB/s x FLOP per byte), or where fewer operations are taken as
	// many more; 0 for a step without arithmetic.
	LimitGFlopsPerS float64 `json:"limit_gflops_per_s"`
	LimitedBy       string  `json:"limited_by"` // "" where no limits are known
}

// Group is the steps of one operator or one kernel together.
type Group struct {
	Name  string `json:"name"`
	Steps int    `json:"steps"`
	Work
}

// Table is the profile of a model.
type Table struct {
	Machine Machine `json:"machine"` // as measured
	Runs    int     `json:"runs"`
	Total   Work    `json:"total"`
	Steps   []Step  `json:"steps"` // in the order in which they run
	// Operators and Kernels add up the steps, the longest first.
	Operators []Group `json:"operators"`
	Kernels   []Group `json:"kernels"`
}

// Profile runs so many iterations of an instance, at least one, step by step, each after fill has
// written the inputs, and takes the median time of each step. Timing a step by itself costs some
// 0.1 us, which small steps show. Steps that not every iteration runs, those of a branch, have the
// median over the iterations that do. Errors are fill's and those of engine.Instance.Run.
func Profile(ctx context.Context, m *Machine, i *engine.Instance, fill func() error,
	runs int) (*Table, error) {
	t := &Table{Machine: *m, Runs: max(runs, 1)}
	r := recorder{index: map[*plan.Step]int{}}
	for range t.Runs {
		if err := fill(); err != nil {
			return nil, err
		}
		r.last = time.Now()
		if err := i.Profile(ctx, r.visit); err != nil {
			return nil, err
		}
	}
	for k := range r.steps {
		t.Steps = append(t.Steps, r.steps[k].row(m))
	}
	t.finish()
	return t, nil
}

// recorder collects the times of steps in the order in which they first ran.
type recorder struct {
	index map[*plan.Step]int
	steps []record
	last  time.Time
}

type record struct {
	step  *plan.Step
	cost  plan.Cost // of the last run
	times []time.Duration
}

func (r *recorder) visit(s *plan.Step, c plan.Cost) {
	took := time.Since(r.last)
	k, seen := r.index[s]
	if !seen {
		k = len(r.steps)
		r.index[s] = k
		r.steps = append(r.steps, record{step: s})
	}
	r.steps[k].cost = c
	r.steps[k].times = append(r.steps[k].times, took)
	r.last = time.Now()
}

func (r *record) row(m *Machine) Step {
	slices.Sort(r.times)
	s := Step{
		Node:   r.step.Node.Name,
		Op:     r.step.Node.Type,
		Kernel: r.step.Kernel.Name(),
		Format: formatOf(r.step),
	}
	s.MS, s.Flops, s.Bytes = milliseconds(r.times[len(r.times)/2]), r.cost.Flops, r.cost.Bytes
	if k, ok := r.step.Kernel.(compute.Choosing); ok {
		s.Measured = k.Measured()
	}
	if k, ok := r.step.Kernel.(compute.Fewer); ok && k.Taken() < s.Flops {
		s.Taken = k.Taken()
	}
	s.limit(m)
	return s
}

// Way names the kernel and how it came to be chosen, and how many operations it takes where those
// are fewer than the definition's.
func (s *Step) Way() string {
	way := s.Kernel
	if s.Measured {
		way += " (measured)"
	}
	if s.Taken > 0 {
		way += fmt.Sprintf(" (%.0f%% of FLOP)", 100*float64(s.Taken)/float64(s.Flops))
	}
	return way
}

// limit sets what follows from the limits of a machine.
func (s *Step) limit(m *Machine) {
	least, compute := m.leastMS(s.Format, cmp.Or(s.Taken, s.Flops), s.Bytes)
	s.LeastMS, s.LimitGFlopsPerS = least, 0
	switch {
	case !m.Known():
		s.LimitedBy = ""
	case compute:
		s.LimitedBy = ByCompute
	default:
		s.LimitedBy = ByMemory
	}
	if least > 0 {
		s.LimitGFlopsPerS = float64(s.Flops) / least / 1e6
	}
}

// Against has the table show its steps beside the limits of m.
func (t *Table) Against(m *Machine) {
	t.Machine = *m
	for i := range t.Steps {
		t.Steps[i].limit(m)
	}
	t.finish()
}

// formatOf tells the arithmetic of a step from the node that asks for it and the kernel that has
// been chosen.
func formatOf(s *plan.Step) Format {
	switch {
	case s.Node.Attrs.String("precision", "") == string(BF16):
		return BF16
	case slices.Contains(strings.Split(s.Kernel.Name(), "."), string(Int8)):
		return Int8
	}
	return FP32
}

// finish adds up the steps and works out what follows.
func (t *Table) finish() {
	t.Total = Work{}
	for i := range t.Steps {
		t.Total.add(&t.Steps[i].Work)
	}
	total := t.Total.MS
	t.Total.rates(total)
	for i := range t.Steps {
		t.Steps[i].rates(total)
	}
	t.Operators = t.groups(func(s *Step) string { return s.Op })
	t.Kernels = t.groups(func(s *Step) string { return s.Op + " " + s.Kernel })
}

func (w *Work) add(v *Work) {
	w.MS += v.MS
	w.Flops += v.Flops
	w.Bytes += v.Bytes
	w.LeastMS += v.LeastMS
}

func (t *Table) groups(name func(*Step) string) []Group {
	index := map[string]int{}
	var list []Group
	for i := range t.Steps {
		n := name(&t.Steps[i])
		k, ok := index[n]
		if !ok {
			k = len(list)
			index[n] = k
			list = append(list, Group{Name: n})
		}
		list[k].Steps++
		list[k].add(&t.Steps[i].Work)
	}
	for i := range list {
		list[i].rates(t.Total.MS)
	}
	sorting.By(list, func(a, b Group) int { return cmp.Compare(b.MS, a.MS) })
	return list
}

// Print writes what each kernel of each operator takes, a line each, the longest first.
func (t *Table) Print(w io.Writer) {
	all := Group{Name: "all", Steps: len(t.Steps), Work: t.Total}
	kinds := t.groups(func(s *Step) string { return s.Op + " (" + s.Kernel + ")" })
	for _, g := range append([]Group{all}, kinds...) {
		fmt.Fprintf(w, "    %9.3f ms %9.2f MB %4d x %s\n", g.MS, float64(g.Bytes)/1e6, g.Steps,
			g.Name)
	}
}

// Order is a way to sort steps.
type Order string

// The orders of Table.Sorted.
const (
	ByTime  Order = "time"  // the longest first
	ByLoss  Order = "loss"  // what is furthest from its least time, in ms, first
	ByOrder Order = "order" // as they run
)

// Sorted returns the steps in that order; unknown orders are ByOrder.
func (t *Table) Sorted(o Order) []Step {
	list := slices.Clone(t.Steps)
	switch o {
	case ByTime:
		sorting.By(list, func(a, b Step) int { return cmp.Compare(b.MS, a.MS) })
	case ByLoss:
		sorting.By(list,
			func(a, b Step) int { return cmp.Compare(b.MS-b.LeastMS, a.MS-a.LeastMS) })
	}
	return list
}
