package web

import (
	"context"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/telemetry"
)

// Source is a server, as its page sees and changes it. Its methods may be called by any number of
// goroutines.
type Source interface {
	// Ready reports whether all models are loaded and the server is not stopping.
	Ready() bool
	// Status is the state of the device. Its jobs are versions of models and called MODEL/VERSION,
	// with something behind that where several are the same.
	Status() weir.HostStatus
	// Index lists the versions of models, with those that are not served if not only ready ones
	// are asked for.
	Index(readyOnly bool) []oip.IndexEntry
	// Metadata describes a model; an empty version stands for the one that is served.
	Metadata(name, version string) (oip.Metadata, error)

	// Policies are the names of the policies that the device can enforce.
	Policies() []string
	// SetPolicy makes another policy decide, as weir.Host.SetPolicy.
	SetPolicy(name string) error
	// SetShare gives a model another share, as weir.Tenant.SetShare, and returns the one before.
	SetShare(model string, s weir.Share) (before weir.Share, err error)
	// LoadModel loads a model and UnloadModel ends it, as the repository extension has them.
	LoadModel(ctx context.Context, name string, p oip.Parameters) error
	UnloadModel(ctx context.Context, name string, p oip.Parameters) error
}

// Reader tells what requests for models came to; *telemetry.Recorder does.
type Reader interface {
	Answered(model string) (all, failed uint64)
	Latency(model string) telemetry.Counts
}

// Graphs reads the graph of a version of a model. Release is to be called once it is no longer
// used.
type Graphs func(ctx context.Context, model, version string) (g *graph.Graph, release func() error,
	err error)
