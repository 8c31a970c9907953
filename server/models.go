package server

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/internal/sorting"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/repo"
)

// model is a name and the versions that are served under it. What is not said of a field is under
// the server's mu.
type model struct {
	name string
	turn chan struct{} // one while its versions are being changed
	// sharing is one while terms and the version that they are of are being changed; of who has
	// both, behind turn.
	sharing chan struct{}
	// served are the versions that answer, ascending; the last is for requests that name none.
	served []*version
	// others are versions that do not answer, or whose load anew has failed, by number; 0 stands
	// for the model as a whole.
	others map[int64]standing
	// terms are the class, guarantee and limit of the newest version, and the cap of memory that
	// somebody has set for each, 0 for none; the others share the class and limit.
	terms   weir.Share
	missing bool           // it was to be served when the server began, and is not
	counted map[string]int // versions that have a telemetry.Model, by number
	before  []Source       // what was served until another version became the newest
	back    []Source       // what it was rolled back to; empty: it serves what the catalogue has
	asked   string         // the marks of what the catalogue had when it was asked last
	kept    string         // what remember has written last; of whoever has the turn

	left []*version // that are no longer served, and have sequences still
	gone bool       // the catalogue has it no more
	with int        // how many change it or wait for its turn

	offer Offer  // what it was to serve last
	lost  bool   // it is an ensemble that is to be served, and lacks a model
	why   string // it is not served, "" where somebody has unloaded it
}

// standing is where a version is that does not answer, and why.
type standing struct{ state, reason string }

// The states of the index (Triton, extension_model_repository.md).
const (
	stateReady       = "READY"
	stateLoading     = "LOADING"
	stateUnloading   = "UNLOADING"
	stateUnavailable = "UNAVAILABLE"
)

// unloaded is the reason of what was served and is not meant to be.
const unloaded = "unloaded"

// model returns that of a name, which is made if there is none; s.mu is held.
func (s *Server) model(name string) *model {
	m := s.models[name]
	if m == nil {
		m = &model{name: name, turn: make(chan struct{}, 1), sharing: make(chan struct{}, 1),
			others: map[int64]standing{}, counted: map[string]int{}}
		if s.o.Terms != nil {
			m.terms = s.o.Terms(name)
		}
		s.models[name] = m
	}
	return m
}

// newest is the version for requests that name none, nil where none is served.
func (m *model) newest() *version {
	if len(m.served) == 0 {
		return nil
	}
	return m.served[len(m.served)-1]
}

// version is the one of a number that answers; "" stands for the newest.
func (m *model) version(number string) *version {
	if number == "" {
		return m.newest()
	}
	for _, v := range m.served {
		if v.number == number {
			return v
		}
	}
	return nil
}

// numbered is the version of a number among those that are served.
func numbered(served []*version, n int64) *version {
	for _, v := range served {
		if v.n == n {
			return v
		}
	}
	return nil
}

// numbers are those of the versions that are served.
func (m *model) numbers() []string {
	list := make([]string, 0, len(m.served))
	for _, v := range m.served {
		list = append(list, v.number)
	}
	return list
}

// find returns a version that answers; s.mu is held. An error is of kind NotFound where there is no
// such, and Unavailable where it is known and does not answer, or may be what the server is still
// to load when it begins.
func (s *Server) find(name, number string) (*version, error) {
	m := s.models[name]
	if m == nil && !s.loaded.Load() {
		return nil, busy("the server begins, and model %.200q is not loaded yet", name)
	}
	if m == nil {
		return nil, unknown(name)
	}
	if v := m.version(number); v != nil {
		return v, nil
	}
	return nil, m.absent(number)
}

// findFor is find for a request, which may be one of a sequence; s.mu is held.
func (s *Server) findFor(ctx context.Context, name, number string, p oip.Parameters) (*version,
	error) {
	v, err := s.find(name, number)
	if m := s.models[name]; m != nil {
		if old := m.going(ctx, v, number, p); old != nil {
			return old, nil
		}
	}
	return v, err
}

// absent is the error about a version that does not answer; the server's mu is held.
func (m *model) absent(number string) error {
	n, ok := repo.Number(number)
	st, known := m.others[n]
	known = known && (number == "" || ok) // 0 stands for the model as a whole
	if number == "" && !known {
		for _, o := range m.others {
			if st, known = o, true; o.state == stateLoading {
				break
			}
		}
	}
	if number != "" && !known {
		has := "none that is served"
		if len(m.served) > 0 {
			has = strings.Join(m.numbers(), ", ")
		}
		return oip.Faultf(oip.NotFound, "model %s has no version %.40q: it has %s", m.name, number,
			has)
	}
	which := m.name
	if number != "" {
		which += ", version " + number + ","
	}
	switch {
	case st.state == stateLoading:
		return busy("model %s is being loaded", which)
	case st.reason == "":
		return oip.Faultf(oip.Unavailable, "model %s is not served: load it", which)
	}
	return oip.Faultf(oip.Unavailable, "model %s is not served: %s", which, st.reason)
}

// look returns a version of a model without a request for it.
func (s *Server) look(name, number string) (*version, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(name, number)
}

// enter counts a request for a model in: until leave among those of its version, and until answered
// among those that Drain waits for. Beside an error it returns the version if there is one.
func (s *Server) enter(ctx context.Context, name, number string, p oip.Parameters) (*version,
	error) {
	if p["sequence_id"] != nil {
		auth.Owner(ctx) // of which the system may be asked: not while all wait
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.findFor(ctx, name, number, p)
	if err != nil {
		return nil, err
	}
	if s.draining {
		return v, errStopping
	}
	v.under++
	s.active++
	return v, nil
}

// leave ends what enter began, for the version.
func (s *Server) leave(v *version) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v.under--
	v.rest()
}

// Models describes the models that are served, by name, each as its newest version is.
func (s *Server) Models() []oip.Metadata {
	var list []oip.Metadata
	for _, name := range s.names() {
		if m, err := s.Metadata(name, ""); err == nil {
			list = append(list, m)
		}
	}
	return list
}

// Index lists the versions of models by name and number, with the reason where one is not served,
// or where it is and could not be loaded anew; with readyOnly those that are served alone.
func (s *Server) Index(readyOnly bool) []oip.IndexEntry {
	list := []oip.IndexEntry{}
	for _, name := range s.names() {
		s.mu.Lock()
		if m := s.models[name]; m != nil {
			list = m.index(list, readyOnly)
		}
		s.mu.Unlock()
	}
	return list
}

// Repository lists what Index does, and without readyOnly what else the folder of models has: those
// that were never loaded have no version, and are UNAVAILABLE without a reason.
func (s *Server) Repository(readyOnly bool) []oip.IndexEntry {
	list := s.Index(readyOnly)
	from, lists := s.catalogue().(interface{ Names() ([]string, error) })
	if readyOnly || !lists {
		return list
	}
	names, err := from.Names()
	if err != nil {
		s.o.Log.Warn("the folder of models cannot be listed", "error", err)
	}
	known := map[string]bool{}
	for _, e := range list {
		known[e.Name] = true
	}
	for _, name := range names {
		if !known[name] {
			list = append(list, oip.IndexEntry{Name: name, State: stateUnavailable})
		}
	}
	// each name's lines are in order already
	sorting.By(list, func(a, b oip.IndexEntry) int {
		return strings.Compare(a.Name, b.Name)
	})
	return list
}

// index appends the model's lines; the server's mu is held.
func (m *model) index(list []oip.IndexEntry, readyOnly bool) []oip.IndexEntry {
	numbers := make([]int64, 0, len(m.served)+len(m.others))
	for _, v := range m.served {
		numbers = append(numbers, v.n)
	}
	for n := range m.others {
		if m.version(strconv.FormatInt(n, 10)) == nil && !readyOnly {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		e := oip.IndexEntry{Name: m.name, State: stateReady, Reason: m.others[n].reason}
		if n > 0 {
			e.Version = strconv.FormatInt(n, 10)
		}
		if v := numbered(m.served, n); v != nil && v.ensemble != nil {
			e.Ensemble = v.ensemble.kind()
		}
		if m.version(e.Version) == nil || n == 0 {
			e.State = m.others[n].state
		}
		list = append(list, e)
	}
	return list
}

// names are those of all models that are known, sorted.
func (s *Server) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]string, 0, len(s.models))
	for name := range s.models {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// all are the versions that are served, of all models.
func (s *Server) all() (list []*version) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.models {
		list = append(list, m.served...)
	}
	return list
}
