package pass

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/fault"
)

// Options configure one run of the optimiser. The zero value runs every pass.
type Options struct {
	// Off names passes to leave out; [Names] lists them.
	Off []string
	// StopAfter, when positive, ends the run after that many patches.
	StopAfter int
	// Dump, when set, is called with the whole graph before the first pass ("start") and after each
	// pass that changed something, under the name of the pass. It must not keep the graph: it
	// clones what it wants to keep.
	Dump func(stage string, g *graph.Graph)
	// Check runs graph.Check before and after every patch.
	Check bool
	// Portable leaves out passes, and forms of passes, whose result only weir can load.
	Portable bool
	// Ahead is for graphs that are compiled later, for shapes that are not known yet: it leaves out
	// passes that want those or a device, and weights stay where the model's file has them where
	// a later pass or a kernel reads them from there.
	Ahead bool
	// Precision says which products multiply in bfloat16. It changes results, so it is not for
	// portable forms.
	Precision Precision
	// Features are those of the device that the graph is compiled for: forms that it has no kernels
	// for, and precisions that are no faster on it, are left out.
	Features compute.Features
	// Log receives one record a pass at level debug, and a warning when the passes do not come to
	// an end; nil is silent.
	Log *slog.Logger
}

// saves are the passes that keep values in 16 bits until they are read again, and those that they
// leave work for.
var saves = []string{"dead", "ampcancel", "ampsave", "ampread"}

// Saving parts the options into those of a run that keeps no value in 16 bits until it is read
// again, and those of one after it that does that alone. It is false where none would be.
func (o Options) Saving() (first, saving Options, ok bool) {
	first, saving = o, o
	first.Off = append(slices.Clone(o.Off), "ampsave", "ampread")
	saving.Off = slices.DeleteFunc(Names(), func(name string) bool {
		return slices.Contains(saves, name) && !slices.Contains(o.Off, name)
	})
	return first, saving, o.Precision.mixed() && !slices.Contains(o.Off, "ampsave")
}

// Report says what each pass did, in the order of their first run.
type Report []Result

// Result is one pass's part of a report.
type Result struct {
	Name     string
	Changes  int // patches applied
	Duration time.Duration
}

// Changes is the number of patches of all passes.
func (r Report) Changes() int {
	n := 0
	for _, p := range r {
		n += p.Changes
	}
	return n
}

// ErrPanic is the kind of error about a pass that panicked: a bug of the pass that some model has
// brought out.
var ErrPanic = fault.ErrPanic

// guarded sweeps one pass over the graph and its bodies and turns a panic into an error, as models
// come from strangers.
func (d *driver) guarded(e *entry) (n int, err error) {
	defer func() {
		if r := fault.Explain(recover()); r != nil {
			if file, ok := r.(*fault.FileError); ok {
				err = file
				return
			}
			d.log(slog.LevelError, "pass panicked", "pass", e.Name, "panic", r, "stack",
				string(debug.Stack()))
			err = fmt.Errorf("%w: %v: please report it with the model", ErrPanic, r)
		}
	}()
	return d.sweepAll(e, d.root)
}

// Run rewrites g in place, bodies included, until no pass finds anything to do. Inputs and outputs
// keep their names and order; constants are replaced, never written. It fails when ctx ends, when
// Options.Off names no pass, or when Options.Check finds a patch that breaks the graph; g is then
// sound but for that last patch. A pass that panics is an error of kind [ErrPanic], after which g
// must not be used.
func Run(ctx context.Context, g *graph.Graph, o Options) (Report, error) {
	for _, name := range o.Off {
		if !slices.Contains(Names(), name) {
			return nil, fmt.Errorf("no pass is named %q; passes are %s", name,
				strings.Join(Names(), ", "))
		}
	}
	d := &driver{ctx: ctx, opts: o, root: g, opset: g.Opsets[""],
		scopes: map[*graph.Graph]*scope{}, names: allNames(g), left: math.MaxInt, room: maxGrowth,
		index: map[string]int{}}
	if o.StopAfter > 0 {
		d.left = o.StopAfter
	}
	err := fault.Do(d.run)
	for _, r := range d.report {
		d.log(slog.LevelDebug, "pass", "graph", g.Name, "pass", r.Name, "changes", r.Changes,
			"duration", r.Duration)
	}
	if err != nil {
		return d.report, fmt.Errorf("optimise graph %q: %w", g.Name, err)
	}
	return d.report, nil
}
