package telemetry

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// ContentType is that of what [Recorder.AppendText] writes: Prometheus' text format.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// The kinds of metrics.
const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
)

// text is metrics in Prometheus' text format ("Exposition formats", version 0.0.4).
type text struct {
	buf  []byte
	name string
}

// family begins a metric. Samples follow, of this metric only.
func (t *text) family(name, kind, help string) {
	t.name = name
	t.buf = append(append(append(t.buf, "# HELP "...), name...), ' ')
	t.buf = append(append(append(t.buf, help...), "\n# TYPE "...), name...)
	t.buf = append(append(append(t.buf, ' '), kind...), '\n')
}

// begin writes the name of a sample with its labels.
func (t *text) begin(suffix string, labels labels) {
	t.buf = append(append(t.buf, t.name...), suffix...)
	if labels != "" {
		t.buf = append(append(append(t.buf, '{'), labels...), '}')
	}
	t.buf = append(t.buf, ' ')
}

func (t *text) whole(labels labels, v uint64) {
	t.begin("", labels)
	t.buf = append(strconv.AppendUint(t.buf, v, 10), '\n')
}

func (t *text) number(labels labels, v float64) {
	t.begin("", labels)
	t.value(v)
}

func (t *text) value(v float64) {
	t.buf = append(strconv.AppendFloat(t.buf, v, 'g', -1, 64), '\n')
}

// bounds are upper bounds of a histogram's buckets as they are written, and how many of its units
// make one of the text's.
type bounds struct {
	of    []uint64
	words []labels
	units float64
}

func newBounds(units float64, of ...uint64) *bounds {
	b := &bounds{of: of, units: units}
	for _, v := range of {
		le := strconv.FormatFloat(float64(v)/units, 'g', -1, 64)
		b.words = append(b.words, label("le", le))
	}
	b.words = append(b.words, label("le", "+Inf"))
	return b
}

// histogram writes a sample of a histogram.
func (t *text) histogram(l labels, c *Counts, b *bounds) {
	counts := make([]uint64, len(b.words))
	c.upTo(b.of, counts)
	counts[len(b.of)] = c.Count
	for i, n := range counts {
		t.begin("_bucket", l.and(b.words[i]))
		t.buf = append(strconv.AppendUint(t.buf, n, 10), '\n')
	}
	t.begin("_sum", l)
	t.value(float64(c.Sum) / b.units)
	t.begin("_count", l)
	t.buf = append(strconv.AppendUint(t.buf, c.Count, 10), '\n')
}

// labels are names and values as they are written, without the braces.
type labels string

var escape = strings.NewReplacer("\\", `\\`, "\"", `\"`, "\n", `\n`)

// label is one of them. What is not UTF-8 in its value is replaced.
func label(name, value string) labels {
	value = strings.ToValidUTF8(value, string(utf8.RuneError))
	return labels(name + `="` + escape.Replace(value) + `"`)
}

func (l labels) and(more labels) labels {
	if l == "" || more == "" {
		return l + more
	}
	return l + "," + more
}
