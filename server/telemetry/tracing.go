package telemetry

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"sync/atomic"

	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/telemetry/otlp"
)

// The settings of traces, by their names (Triton, extension_trace.md, and trace_config of its
// command line).
const (
	traceLevel = "trace_level"
	traceRate  = "trace_rate"
	traceCount = "trace_count"
	traceMode  = "trace_mode"
	traceFile  = "trace_file"
	logEvery   = "log_frequency"
)

// tracing decides which requests are traced.
type tracing struct {
	to      *otlp.Exporter // nil: none can be
	initial setting
	all     atomic.Pointer[setting]
	models  atomic.Pointer[map[string]*setting] // those with settings of their own
}

// setting is how requests are sampled. It is not changed.
type setting struct {
	on   bool
	rate uint32 // one in so many; 0 stands for those alone that a client's trace has
	// left is how many more are traced, negative for no bound; seen counts requests.
	left *atomic.Int64
	seen *atomic.Uint64
}

func newSetting(on bool, rate uint32, count int64) *setting {
	s := &setting{on: on, rate: rate, left: new(atomic.Int64), seen: new(atomic.Uint64)}
	s.left.Store(count)
	return s
}

func (t *tracing) init(to *otlp.Exporter, rate uint32) {
	t.to = to
	t.initial = *newSetting(to != nil, rate, -1)
	t.all.Store(&t.initial)
	t.models.Store(&map[string]*setting{})
}

// of returns the setting for a model.
func (t *tracing) of(model string) *setting {
	if s := (*t.models.Load())[model]; s != nil {
		return s
	}
	return t.all.Load()
}

// samples reports whether a request is traced, whose client has a trace if p is not nil.
func (t *tracing) samples(model string, p *otlp.Parent) bool {
	if t.to == nil {
		return false
	}
	s := t.of(model)
	switch {
	case !s.on, p != nil && !p.Sampled:
		return false
	case p == nil && (s.rate == 0 || s.seen.Add(1)%uint64(s.rate) != 1%uint64(s.rate)):
		return false
	}
	for {
		left := s.left.Load()
		if left <= 0 || s.left.CompareAndSwap(left, left-1) {
			return left != 0
		}
	}
}

// TraceSettings are the settings of traces, for a model or, if that is "", for those without
// settings of their own, as Triton names them. Its settings of files are empty: traces go to a
// collector.
func (r *Recorder) TraceSettings(model string) map[string][]string {
	s := r.tracing.all.Load()
	if model != "" {
		s = r.tracing.of(model)
	}
	level := "OFF"
	if s.on {
		level = "TIMESTAMPS"
	}
	return map[string][]string{traceLevel: {level},
		traceRate:  {strconv.FormatUint(uint64(s.rate), 10)},
		traceCount: {strconv.FormatInt(max(s.left.Load(), -1), 10)},
		traceMode:  {"opentelemetry"}, traceFile: {""}, logEvery: {"0"}}
}

// SetTrace changes settings of traces, and returns all of them. An empty value takes a setting back
// to that of all models or, of all models, to that of the start; no changes for a model end its
// own. A level is OFF or TIMESTAMPS: tensors are never recorded. The error is an *oip.Fault, and
// then nothing is changed.
func (r *Recorder) SetTrace(model string, changes map[string][]string) (map[string][]string,
	error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &r.tracing
	if model != "" && len(changes) == 0 {
		own := maps.Clone(*t.models.Load())
		delete(own, model)
		t.models.Store(&own)
		return r.TraceSettings(model), nil
	}
	now, back := t.all.Load(), &t.initial
	if model != "" {
		now, back = t.of(model), t.all.Load()
	}
	s, err := t.changed(now, back, changes)
	if err != nil {
		return nil, err
	}
	if model == "" {
		t.all.Store(s)
		return r.TraceSettings(""), nil
	}
	own := maps.Clone(*t.models.Load())
	if own[model] == nil && len(own) >= r.o.Models {
		return nil, oip.Faultf(oip.Unavailable, "%d models have settings of traces of their own, "+
			"which is as many as may: end those of another first", len(own))
	}
	own[model] = s
	t.models.Store(&own)
	return r.TraceSettings(model), nil
}

// changed is a setting with changes.
func (t *tracing) changed(now, back *setting, changes map[string][]string) (*setting, error) {
	s := newSetting(now.on, now.rate, now.left.Load())
	for name, values := range changes {
		if len(values) == 0 {
			s.takeBack(name, back)
			continue
		}
		if err := s.set(name, values); err != nil {
			return nil, err
		}
	}
	if s.on && t.to == nil {
		return nil, oip.Faultf(oip.Unsupported, "traces have nowhere to go: start the server with "+
			"--otlp and the URL of a collector")
	}
	return s, nil
}

func (s *setting) takeBack(name string, back *setting) {
	switch name {
	case traceLevel:
		s.on = back.on
	case traceRate:
		s.rate = back.rate
	case traceCount:
		s.left.Store(back.left.Load())
	}
}

// set sets one setting.
func (s *setting) set(name string, values []string) error {
	v := values[0]
	switch {
	case name == traceLevel:
		return s.level(values)
	case len(values) > 1:
		return oip.Faultf(oip.Invalid, "%s has %d values: give one", name, len(values))
	case name == traceRate:
		n, err := strconv.ParseUint(v, 10, 32)
		if err != nil {
			return whole(name, v, 0, math.MaxUint32)
		}
		s.rate = uint32(n)
	case name == traceCount:
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < -1 {
			return whole(name, v, -1, math.MaxInt64)
		}
		s.left.Store(n)
	case name == traceMode && v == "opentelemetry", name == traceFile && v == "",
		name == logEvery && v == "0":
	case name == traceMode, name == traceFile, name == logEvery:
		return oip.Faultf(oip.Unsupported, "%s cannot be %.40q: traces go to the collector that "+
			"--otlp names", name, v)
	default:
		return oip.Faultf(oip.Invalid, "there is no setting %.40q of traces", name)
	}
	return nil
}

func whole(name, given string, from int64, to uint64) error {
	return oip.Faultf(oip.Invalid, "%s is %.40q: give a whole number from %d to %d", name, given,
		from, to)
}

func (s *setting) level(values []string) error {
	for _, v := range values {
		switch {
		case v == "OFF" && len(values) > 1:
			return oip.Faultf(oip.Invalid, "%s is OFF and something else: give one", traceLevel)
		case v == "OFF", v == "TIMESTAMPS":
			s.on = v == "TIMESTAMPS"
		case v == "TENSORS":
			return oip.Faultf(oip.Unsupported, "%s TENSORS: what is in requests is not recorded",
				traceLevel)
		default:
			return oip.Faultf(oip.Invalid, "%s is %.40q: give OFF or TIMESTAMPS", traceLevel, v)
		}
	}
	return nil
}

// text writes what was traced, and what was lost of it.
func (t *tracing) text(w *text) {
	if t.to == nil {
		return
	}
	for _, m := range []struct {
		name, help string
		value      int64
	}{
		{"weir_trace_spans_total", "Spans that the collector took.", t.to.Sent()},
		{"weir_trace_spans_dropped_total", "Spans that were lost: too many waited, or the " +
			"collector did not take them.", t.to.Dropped()},
	} {
		w.family(m.name, counter, m.help)
		w.whole("", uint64(m.value))
	}
}

// describe is how an execution's step is called in a trace.
func describe(operator, node string) string {
	if node == "" {
		return operator
	}
	return fmt.Sprintf("%s %s", operator, node)
}
