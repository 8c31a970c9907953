package pass

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
)

// maxRounds bounds how often the passes of one phase are repeated. Every pass shrinks the graph or
// moves it towards its normal form, so real graphs need a handful; the bound keeps a mistake in a
// pair of passes from running for ever.
const maxRounds = 32

// maxNested bounds how deep patches at nodes that patches have inserted may go in one sweep.
const maxNested = 64

// driver runs the passes over a graph and its bodies.
type driver struct {
	ctx    context.Context
	opts   Options
	root   *graph.Graph
	opset  int
	scopes map[*graph.Graph]*scope
	names  map[string]bool // of all values
	left   int             // patches that may still be applied
	room   int             // bytes by which folding may still enlarge the model
	report Report
	index  map[string]int // pass name to its place in report
}

// round runs every phase once and counts the changes.
func (d *driver) round() (changes int, err error) {
	for p := range phases {
		n, err := d.phase(phase(p))
		if err != nil {
			return 0, err
		}
		changes += n
	}
	return changes, nil
}

func (d *driver) run() error {
	if d.opts.Check {
		if err := d.root.Check(); err != nil {
			return fmt.Errorf("before the first pass: %w", err)
		}
	}
	if d.opts.Dump != nil {
		d.opts.Dump("start", d.root)
	}
	infer(d.root)
	for range maxRounds {
		changes, err := d.round()
		if err != nil {
			return err
		}
		if changes == 0 || d.left == 0 {
			d.importDomain()
			return nil
		}
	}
	d.importDomain()
	d.log(slog.LevelWarn, "optimiser stopped at its bound of rounds", "graph", d.root.Name,
		"rounds", maxRounds)
	return nil
}

// importDomain declares weir's own operators when the graph has come to use them.
func (d *driver) importDomain() {
	d.root.Walk(func(g *graph.Graph) {
		for _, n := range g.Nodes {
			if n.Domain != op.FusedDomain || d.root.Opsets[op.FusedDomain] > 0 {
				continue
			}
			if d.root.Opsets == nil {
				d.root.Opsets = map[string]int{}
			}
			d.root.Opsets[op.FusedDomain] = 1
		}
	})
}

// runs reports whether a pass is to run.
func (o *Options) runs(e *entry) bool {
	own := !o.Portable && (!o.Ahead || slices.Contains(ahead, e.Name))
	return (e.Portable || own) && !slices.Contains(o.Off, e.Name)
}

// phase repeats the passes of one phase until none finds anything.
func (d *driver) phase(p phase) (int, error) {
	total := 0
	for range maxRounds {
		changes := 0
		for i := range passes {
			if e := &passes[i]; e.phase == p && d.opts.runs(e) {
				n, err := d.pass(e)
				if err != nil {
					return total, fmt.Errorf("pass %s: %w", e.Name, err)
				}
				changes += n
			}
		}
		total += changes
		if changes == 0 || d.left == 0 {
			break
		}
	}
	return total, nil
}

// pass sweeps one pass once over the graph and its bodies.
func (d *driver) pass(e *entry) (int, error) {
	start := time.Now()
	n, err := d.guarded(e)
	r := d.result(e.Name)
	r.Changes += n
	r.Duration += time.Since(start)
	if n > 0 && d.opts.Dump != nil && err == nil {
		d.opts.Dump(e.Name, d.root)
	}
	return n, err
}

func (d *driver) result(name string) *Result {
	i, ok := d.index[name]
	if !ok {
		i = len(d.report)
		d.index[name] = i
		d.report = append(d.report, Result{Name: name})
	}
	return &d.report[i]
}

// sweepAll sweeps g and then the bodies that it holds after that.
func (d *driver) sweepAll(e *entry, g *graph.Graph) (int, error) {
	total, err := d.sweep(e, g)
	if err != nil {
		return total, err
	}
	for _, n := range g.Nodes {
		changed := 0
		for _, b := range n.Bodies() {
			if n.SeedCaptures(b) {
				infer(b)
			}
			k, err := d.sweepAll(e, b)
			if changed += k; err != nil {
				return total + changed, err
			}
		}
		if changed > 0 {
			d.scope(g).dirty[n] = true
		}
		total += changed
	}
	return total, nil
}

func (d *driver) scope(g *graph.Graph) *scope {
	s := d.scopes[g]
	if s == nil {
		s = newScope(d.ctx, g, d.opset, &d.room, d.names)
		s.portable, s.precision, s.inner = d.opts.Portable, d.opts.Precision, g != d.root
		s.ahead, s.features = d.opts.Ahead, d.opts.Features
		d.scopes[g] = s
	}
	return s
}

// sweep offers every node of one graph, in order, to the pass's rule.
func (d *driver) sweep(e *entry, g *graph.Graph) (int, error) {
	w := &walk{driver: d, pass: e, scope: d.scope(g), tries: map[*graph.Node]int{}}
	w.todo = slices.Clone(g.Nodes)
	slices.Reverse(w.todo)
	w.rule = e.start(w.scope)
	for len(w.todo) > 0 {
		if err := d.ctx.Err(); err != nil {
			w.assemble()
			return w.changes, err
		}
		if err := w.next(); err != nil {
			w.assemble()
			return w.changes, err
		}
	}
	w.assemble()
	return w.changes, nil
}

// walk is one sweep under way.
type walk struct {
	*driver
	pass    *entry
	scope   *scope
	rule    rule
	done    []*graph.Node       // visited, in order
	todo    []*graph.Node       // to be visited, last first
	tries   map[*graph.Node]int // patches that led to the node
	changes int
}

// next offers one node to the rule. What a patch inserts, and the node itself if it stays, is
// offered again.
func (w *walk) next() error {
	s, last := w.scope, len(w.todo)-1
	n := w.todo[last]
	w.todo = w.todo[:last]
	if s.removed[n] {
		return nil
	}
	if s.dirty[n] {
		s.reinfer(n)
	}
	var p *Patch
	if w.left != 0 && w.tries[n] < maxNested {
		p = w.rule(n)
	}
	if p == nil {
		w.done = append(w.done, n)
		return nil
	}
	inserted, err := s.apply(p)
	if err != nil {
		w.done = append(w.done, n)
		w.log(slog.LevelDebug, "patch refused", "pass", w.pass.Name, "node", n.Name, "error", err)
		return nil
	}
	w.offerAgain(append(slices.Clone(inserted), n), w.tries[n]+1)
	w.changes++
	w.left--
	return w.check(n)
}

// offerAgain puts nodes next in line, in their order.
func (w *walk) offerAgain(nodes []*graph.Node, tries int) {
	for _, n := range slices.Backward(nodes) {
		w.tries[n] = tries
		w.todo = append(w.todo, n)
	}
}

// check verifies the whole model after a patch, when asked to.
func (w *walk) check(at *graph.Node) error {
	if !w.opts.Check {
		return nil
	}
	w.assemble()
	if err := w.root.Check(); err != nil {
		return fmt.Errorf("patch at %v: %w", at, err)
	}
	return nil
}

// assemble writes the nodes that are left back to the graph.
func (w *walk) assemble() {
	w.done = slices.DeleteFunc(w.done, func(n *graph.Node) bool { return w.scope.removed[n] })
	nodes := slices.Clone(w.done)
	for i := len(w.todo) - 1; i >= 0; i-- {
		if n := w.todo[i]; !w.scope.removed[n] {
			nodes = append(nodes, n)
		}
	}
	w.scope.g.Nodes = nodes
}

func (d *driver) log(level slog.Level, msg string, args ...any) {
	if d.opts.Log != nil {
		d.opts.Log.Log(d.ctx, level, msg, args...)
	}
}

// infer types every value of a graph that nodes compute, leaving out what a shape rule refuses:
// such a node may sit in a branch that is never taken.
func infer(g *graph.Graph) {
	for _, n := range g.Nodes {
		_ = n.InferTypes()
		for _, b := range n.Bodies() {
			if n.SeedCaptures(b) {
				infer(b)
			}
		}
	}
}
