package server

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/telemetry"
)

// This file makes versions of other models that are served (Triton, model_config.proto,
// ModelEnsembling): one graph of theirs where that is possible, whose values between the models
// stay on the device, and else a pipeline (pipeline.go).

// ensemblePlatform is the platform of a configuration with ensemble_scheduling.
const ensemblePlatform = "ensemble"

// ensemble is how a version is made of other models.
type ensemble struct {
	steps   []*stage // each behind those that it reads from
	inputs  []oip.TensorFields
	outputs []oip.TensorFields
	why     string // it is no one graph; "": it is
}

// stage is a model of an ensemble.
type stage struct {
	oip.EnsembleStep
	name   string            // its own among the steps
	number string            // the version that is asked for, "" for the newest
	member *version          // as it was when the ensemble was loaded
	made   map[string]string // OutputMap, with names of their own for outputs that it has not
}

// steps are those of a configuration, nil where it is none of an ensemble.
func stepsOf(c *oip.Config) []oip.EnsembleStep {
	if c == nil || c.EnsembleScheduling == nil {
		return nil
	}
	return c.EnsembleScheduling.Step
}

// isEnsemble reports whether a source is made of other models.
func isEnsemble(src *Source) bool {
	return src.Config != nil && src.Config.EnsembleScheduling != nil
}

// open opens a version's model; that of an ensemble which is a pipeline is nil.
func (s *Server) open(f *fresh) (*weir.Model, error) {
	if !isEnsemble(&f.Source) {
		return f.Open()
	}
	if err := heeded(f.Config, f.Name); err != nil {
		return nil, fmt.Errorf("%w: configuration: %w", weir.ErrUnsupported, err)
	}
	e, err := s.ensemble(f.Name, f.Config)
	if err != nil {
		return nil, errUnfit{err}
	}
	f.ensemble, f.Labels = e, e.labels(f.Labels)
	f.Open = func() (*weir.Model, error) { return e.join(f.Name) }
	if e.why = e.apart(); e.why != "" {
		return nil, nil
	}
	on, err := e.join(f.Name)
	if err != nil {
		e.why = text(err)
	}
	return on, nil
}

// errMember is the kind of error about a model of an ensemble that is not served.
var errMember = errors.New("a model of an ensemble is not served")

// errUnfit is an error about models which an ensemble cannot be made of as they are.
type errUnfit struct{ error }

func (e errUnfit) Unwrap() error { return e.error }

// ensemble finds the models of a configuration and holds against them what it says of them.
func (s *Server) ensemble(name string, c *oip.Config) (*ensemble, error) {
	e := &ensemble{}
	if len(stepsOf(c)) == 0 || len(c.Input) == 0 || len(c.Output) == 0 {
		return nil, fmt.Errorf("configuration: an ensemble has input, output and a step at least")
	}
	if around := s.around(name, c); around != "" {
		return nil, fmt.Errorf("circular dependency between ensembles: %s", around)
	}
	taken := map[string]bool{}
	for _, st := range stepsOf(c) {
		m, err := s.member(name, &st)
		if err != nil {
			return nil, err
		}
		if most := m.mostRows(); most > 0 && most < c.MaxBatchSize {
			return nil, fmt.Errorf("ensemble %s allows maximum batch size %d, but it contains "+
				"model %s which only allows maximum batch size to be %d", name, c.MaxBatchSize,
				m.name, most)
		}
		x := &stage{EnsembleStep: st, name: st.ModelName, number: numberOf(&st), member: m}
		for i := 2; taken[x.name]; i++ {
			x.name = st.ModelName + "~" + strconv.Itoa(i)
		}
		taken[x.name] = true
		e.steps = append(e.steps, x)
	}
	w := &wiring{name: name, values: map[string]*flow{}}
	if err := w.check(e, c); err != nil {
		return nil, fmt.Errorf("in ensemble %s, %w", name, err)
	}
	return e, nil
}

// numberOf is the version that a step asks for, "" for the newest.
func numberOf(st *oip.EnsembleStep) string {
	if st.ModelVersion <= 0 {
		return ""
	}
	return strconv.FormatInt(st.ModelVersion, 10)
}

// member is the version that a step asks for. The error is of kind errMember.
func (s *Server) member(name string, st *oip.EnsembleStep) (*version, error) {
	m, err := s.look(st.ModelName, numberOf(st))
	if err == nil {
		return m, nil
	}
	what := "which has no loaded version"
	if _, other := s.look(st.ModelName, ""); other == nil {
		what = "whose required version " + numberOf(st) + " is not loaded"
	}
	return nil, fmt.Errorf("%w: ensemble '%s' depends on '%s' %s: %w", errMember, name,
		st.ModelName, what, err)
}

// mostRows is how many rows the configuration lets a request have, 0 where it says nothing.
func (v *version) mostRows() int64 {
	if v.source.Config == nil {
		return 0
	}
	return v.source.Config.MaxBatchSize
}

// names are those of the steps' models, in order.
func (e *ensemble) names() string {
	var list []string
	for _, st := range e.steps {
		list = append(list, st.ModelName)
	}
	return strings.Join(list, ", ")
}

// members are the models of one graph as they count; nil of a model that is no ensemble.
func (e *ensemble) members() *telemetry.Members {
	if e == nil {
		return nil
	}
	l := telemetry.NewMembers()
	for _, st := range e.steps {
		l.Add(st.name, st.member.counts, st.member.members)
	}
	return l
}

// kind is what the ensemble is, in words.
func (e *ensemble) kind() string {
	if e.why == "" {
		return "one graph of " + e.names()
	}
	return "a pipeline of " + e.names() + ": " + e.why
}

// apart says why the models cannot be one graph, "" where they may.
func (e *ensemble) apart() string {
	for _, st := range e.steps {
		m := st.member
		switch {
		case m.sequences != nil:
			return st.ModelName + " keeps the state of sequences"
		case m.decoupled:
			return st.ModelName + " answers a request several times"
		case m.on == nil:
			return st.ModelName + " is a pipeline itself"
		}
		for name, w := range m.views {
			if w.reshaped() {
				return "the configuration of " + st.ModelName + " reshapes " + name
			}
		}
	}
	return ""
}

// join opens the models of the steps once more, as one.
func (e *ensemble) join(name string) (*weir.Model, error) {
	if why := e.apart(); why != "" {
		return nil, fmt.Errorf("%w: ensemble %s is a pipeline: %s", weir.ErrUnsupported, name, why)
	}
	var parts []weir.Part
	read := map[string]bool{}
	for _, st := range e.steps {
		m, err := st.member.source.Open()
		if err != nil {
			for _, p := range parts {
				err = errors.Join(err, p.Model.Close())
			}
			return nil, fmt.Errorf("%s: %w", st.name, err)
		}
		for _, to := range st.InputMap {
			read[to] = true
		}
		parts = append(parts, weir.Part{Name: st.name, Model: m, Inputs: st.InputMap,
			Outputs: st.made})
	}
	return weir.Join(name, parts, e.results(read))
}

// results are the outputs of the joined model: those of the ensemble, and others that no step
// reads, which the model alone computes too.
func (e *ensemble) results(read map[string]bool) (list []string) {
	for _, f := range e.outputs {
		list = append(list, f.Name)
	}
	for _, st := range e.steps {
		for _, own := range slices.Sorted(maps.Keys(st.made)) {
			if to := st.made[own]; !read[to] && !slices.Contains(list, to) {
				list = append(list, to)
			}
		}
	}
	return list
}

// stateful reports whether a model keeps the state of sequences.
func (e *ensemble) stateful() bool {
	return e != nil && slices.ContainsFunc(e.steps, func(st *stage) bool {
		return st.member.sequences != nil || st.member.ensemble.stateful()
	})
}

// labels are those that are given, and for other outputs those of the models that compute them.
func (e *ensemble) labels(given map[string][]string) map[string][]string {
	all := maps.Clone(given)
	for _, st := range e.steps {
		for own, to := range st.OutputMap {
			if l := st.member.source.Labels[own]; l != nil && all[to] == nil {
				if all == nil {
					all = map[string][]string{}
				}
				all[to] = l
			}
		}
	}
	return all
}
