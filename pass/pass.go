package pass

import (
	"context"
	"log/slog"
	"time"

	"github.com/weirgpu/weir/graph"
)

// Options configure one run of the optimiser. The zero value runs every pass.
type Options struct {
	// Off names passes to leave out.
	Off []string
	// StopAfter, when positive, ends the run after that many patches.
	StopAfter int
	// Dump, when set, is called with the graph before the first pass and after each pass that changed something.
	Dump func(stage string, g *graph.Graph)
	// Check runs graph.Check before and after every patch.
	Check bool
	// Portable leaves out passes whose result only weir can load.
	Portable bool
	// Log receives one record a pass; nil is silent.
	Log *slog.Logger
}

// Report says what each pass did, in the order of their first run.
type Report []Result

// Result is one pass's part of a report.
type Result struct {
	Name     string
	Changes  int // patches applied
	Duration time.Duration
}

// Run rewrites g in place, bodies included, until no pass finds anything to do.
func Run(ctx context.Context, g *graph.Graph, o Options) (Report, error) {
	return nil, ctx.Err()
}
