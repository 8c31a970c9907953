package telemetry

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The largest values that histograms tell apart.
const (
	longest = 1<<40 - 1 // ns, 18 minutes
	widest  = 1<<20 - 1 // rows
)

// Model counts what a version of a model is asked and answers. Get it from [Recorder.Model] once,
// when the version is loaded: a request then costs no look-up. A nil *Model counts nothing.
type Model struct {
	name, version string
	of            *Recorder
	labels        labels
	job           string // under the recorder's mu, as gone
	gone          bool   // was forgotten

	waiting atomic.Int64  // requests in the queue
	offered atomic.Uint64 // rows of requests that were to be computed, refused ones too
	begun   atomic.Uint64 // rows that were computed, or began to be

	last              atomic.Int64 // when the last request came, on the recorder's clock
	succeeded, failed duration     // of requests, from admission to the answer
	hits, misses      duration     // of the cache of answers
	input, output     atomic.Uint64
	rows, executions  atomic.Uint64
	queue, compute    *Histogram // of requests
	batches           *Histogram // rows of executions

	sizing   sync.Mutex
	bySize   map[int]*size
	accounts atomic.Pointer[map[string]*account]
}

// duration counts and sums.
type duration struct{ count, ns atomic.Uint64 }

func (d *duration) add(t time.Duration) {
	d.count.Add(1)
	d.ns.Add(uint64(t))
}

// size sums the executions of one batch size.
type size struct{ count, input, infer, output uint64 }

// maxSizes bounds the sizes that a model's executions are told apart by in its statistics.
const maxSizes = 256

// account counts what an account asks of a version of a model.
type account struct {
	labels   labels
	outcomes [outcomes]atomic.Uint64
	rows     atomic.Uint64
	in, out  atomic.Uint64
	time     *Histogram
}

func newModel(r *Recorder, name, version string) *Model {
	m := &Model{name: name, version: version, of: r,
		labels: label("model", name).and(label("version", version)),
		queue:  newHistogram(longest), compute: newHistogram(longest),
		batches: newHistogram(widest), bySize: map[int]*size{}}
	m.accounts.Store(&map[string]*account{})
	return m
}

// account returns what counts for an account: its own, or where there are too many, that of all
// others.
func (m *Model) account(name string) *account {
	if a := (*m.accounts.Load())[name]; a != nil {
		return a
	}
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	known := *m.accounts.Load()
	if known[name] == nil {
		if m.gone || m.of.accounts >= m.of.o.Accounts {
			name = Other
		}
		if known[name] == nil {
			if !m.gone && name != Other {
				m.of.accounts++
			}
			known = maps.Clone(known)
			known[name] = &account{labels: m.labels.and(label("account", name)),
				time: newHistogram(longest)}
			m.accounts.Store(&known)
		}
	}
	return known[name]
}

// byAccount lists the accounts by name.
func (m *Model) byAccount() []*account {
	known := *m.accounts.Load()
	return slices.SortedFunc(maps.Values(known), func(a, b *account) int {
		return cmp.Compare(a.labels, b.labels)
	})
}

// own is how many accounts count for themselves.
func (m *Model) own() int {
	known := *m.accounts.Load()
	if known[Other] != nil {
		return len(known) - 1
	}
	return len(known)
}

// ran counts an execution that was without an error.
func (m *Model) ran(rows int, input, infer, output time.Duration) {
	m.executions.Add(1)
	m.rows.Add(uint64(rows))
	m.batches.Observe(uint64(rows))
	m.sizing.Lock()
	defer m.sizing.Unlock()
	s := m.bySize[rows]
	if s == nil {
		if len(m.bySize) >= maxSizes {
			return
		}
		s = new(size)
		m.bySize[rows] = s
	}
	s.count++
	s.input += uint64(input)
	s.infer += uint64(infer)
	s.output += uint64(output)
}
