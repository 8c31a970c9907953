package telemetry

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/telemetry/otlp"
)

// Other is what stands in the place of names beyond those that are counted for themselves.
const Other = "other"

// The bounds of a recorder whose options say nothing of them.
const (
	DefaultModels   = 256
	DefaultAccounts = 512
)

// Options say what a recorder counts.
type Options struct {
	// Version is that of the program.
	Version string
	// Models is how many versions of models are counted for themselves, and Accounts how many
	// pairs of such a version and an account; 0 stands for DefaultModels and DefaultAccounts. What
	// is beyond them counts under Other.
	Models, Accounts int
	// Traces takes the spans of requests that are traced; nil: none is. The caller closes it, after
	// the server.
	Traces *otlp.Exporter
	// TraceRate has one request in so many traced, of those that come without a trace of their
	// client's, which says itself whether it is; 0 none of them.
	TraceRate uint32
	// Programs are the devices that programs share beside the server, for the metrics. It must
	// return soon. nil: there are none.
	Programs func() []Programs
	// Log is told of each request: of one that failed by the server's fault as an error, of others
	// that failed as a warning, and else for debugging. Of those that fail it is told of 10 a
	// second, and how many it was not told of. Nothing of a request's data is in it. nil: nobody is
	// told.
	Log *slog.Logger
}

// Source is a server, as its metrics see it. Its methods may be called by any number of goroutines.
type Source interface {
	// Ready reports whether the server takes requests for all models that it was to load.
	Ready() bool
	// Status is the state of the device; its jobs have the names that [Recorder.Model] was given.
	Status() weir.HostStatus
	// Kept is how many answers are kept for equal requests, and their bytes.
	Kept() (answers int, bytes int64)
}

// Recorder counts what a server is asked and answers. It needs [Recorder.Close] once it watches.
type Recorder struct {
	o      Options
	origin time.Time
	none   *Model // of requests for no model

	mu       sync.Mutex
	models   map[key]*Model
	accounts int // pairs of a version and an account that are counted for themselves

	tracing tracing

	failures *rate.Limiter // of lines in the log
	unsaid   atomic.Int64  // failures that have no line

	load atomic.Uint64 // bits of a float64
	stop chan struct{} // closed by Close; nil while nothing is watched
	done sync.WaitGroup
}

// key names a version of a model.
type key struct{ name, version string }

// New returns a recorder that has counted nothing.
func New(o Options) *Recorder {
	o.Models = cmp.Or(o.Models, DefaultModels)
	o.Accounts = cmp.Or(o.Accounts, DefaultAccounts)
	// a moment of 0 stands for none
	r := &Recorder{o: o, origin: time.Now().Add(-1), models: map[key]*Model{},
		failures: rate.NewLimiter(failuresASecond, failuresAtOnce)}
	r.none = newModel(r, "", "")
	r.tracing.init(o.Traces, o.TraceRate)
	return r
}

// now is the recorder's clock.
func (r *Recorder) now() time.Duration { return time.Since(r.origin) }

// date is a moment of the recorder's clock.
func (r *Recorder) date(now int64) time.Time { return r.origin.Add(time.Duration(now)) }

// Model returns what counts a version of a model, which runs as the job of that name. A version
// that was counted before goes on where it was, until [Recorder.Forget], and as the job that it
// was, until [Model.Runs].
func (r *Recorder) Model(name, version, job string) *Model {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	k, others := key{name, version}, key{Other, Other}
	own := len(r.models)
	if r.models[others] != nil {
		own--
	}
	if r.models[k] == nil && own >= r.o.Models {
		k, job = others, ""
	}
	if r.models[k] == nil {
		r.models[k] = newModel(r, k.name, k.version)
		r.models[k].job = job
	}
	return r.models[k]
}

// Runs says that a version runs as the job of that name from then on: "" as none of its own. It is
// for when a version is served in the place of another one of its number.
func (m *Model) Runs(job string) {
	if m == nil {
		return
	}
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	if m.name != Other || m.version != Other { // which are many
		m.job = job
	}
}

// Forget ends the counting of a version that is no longer served. Requests for it that are under
// way are not counted.
func (r *Recorder) Forget(name, version string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	k := key{name, version}
	if m := r.models[k]; m != nil {
		r.accounts -= m.own()
		m.gone = true
		delete(r.models, k)
	}
}

// list returns the models by name and version.
func (r *Recorder) list() []*Model {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(maps.Values(r.models), func(a, b *Model) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.version, b.version))
	})
}
