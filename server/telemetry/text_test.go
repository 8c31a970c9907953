package telemetry

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// parsed is a text as Prometheus reads it.
func parsed(t *testing.T, text []byte) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	f, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("Prometheus' parser: %v\n%s", err, text)
	}
	return f
}

// value is that of the metric's sample with the labels, which come in pairs.
func value(t *testing.T, f map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	t.Helper()
	for _, m := range f[name].GetMetric() {
		if has(m, labels) {
			switch f[name].GetType() {
			case dto.MetricType_COUNTER:
				return m.GetCounter().GetValue()
			case dto.MetricType_GAUGE:
				return m.GetGauge().GetValue()
			case dto.MetricType_HISTOGRAM:
				return m.GetHistogram().GetSampleSum()
			}
		}
	}
	t.Errorf("no %s %q", name, labels)
	return math.NaN()
}

func has(m *dto.Metric, labels []string) bool {
	found := 0
	for _, l := range m.GetLabel() {
		for i := 0; i < len(labels); i += 2 {
			if l.GetName() == labels[i] && l.GetValue() == labels[i+1] {
				found++
			}
		}
	}
	return found*2 == len(labels)
}

// TestText: Prometheus reads all metrics, finds no fault with those that are weir's own, and reads
// back what was counted, with names that need escaping.
func TestText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{Version: "v1"})
		name := "a \"model\"\nof \\ und\xff"
		m := r.Model(name, "3", "job")
		life(m, "me", 2, nil)
		text := r.AppendText(nil, &box{ready: true,
			used: map[string]time.Duration{"job": time.Second}})
		f := parsed(t, text)
		name = strings.ToValidUTF8(name, "\ufffd")
		of := []string{"model", name, "version", "3"}
		by := append(of, "account", "me")
		for _, c := range []struct {
			name   string
			labels []string
			want   float64
		}{
			{"weir_build_info", []string{"version", "v1"}, 1},
			{"weir_ready", nil, 1},
			{"weir_load", nil, 0},
			{"weir_device_memory_bytes", []string{"device", "cpu:0"}, 1 << 30},
			{"weir_job_device_seconds_total", []string{"device", "cpu:0", "job", "job"}, 1},
			{"weir_job_memory_cap_bytes", []string{"job", "job"}, 3 << 20},
			{"weir_requests_total", append(by, "outcome", "ok"), 1},
			{"weir_request_rows_total", by, 2},
			{"weir_request_bytes_total", by, 100},
			{"weir_response_bytes_total", by, 200},
			{"weir_request_seconds", by, 0.045},
			{"weir_queue_seconds", of, 0.008},
			{"weir_compute_seconds", of, 0.006},
			{"weir_batch_rows", of, 2},
			{"weir_queue_length", of, 0},
			{"weir_model_resident_bytes", of, 2 << 20},
			{"nv_inference_count", of, 2},
			{"nv_inference_compute_infer_duration_us", of, 6000},
		} {
			if got := value(t, f, c.name, c.labels...); math.Abs(got-c.want) > 1e-12 {
				t.Errorf("%s is %v, want %v", c.name, got, c.want)
			}
		}
		problems, err := promlint.New(bytes.NewReader(text)).Lint()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			if strings.HasPrefix(p.Metric, "weir_") {
				t.Errorf("%s: %s", p.Metric, p.Text)
			}
		}
	})
}

// TestTextHistogram: a bucket counts what is up to its bound, and the last all.
func TestTextHistogram(t *testing.T) {
	h := newHistogram(longest)
	for _, v := range []uint64{1 << 14, 1<<14 + 1, 1e9, 1 << 39} {
		h.Observe(v)
	}
	var w text
	w.family("x", histogram, "X.")
	c := h.Counts()
	w.histogram(label("a", "b"), &c, seconds)
	got := parsed(t, w.buf)["x"].GetMetric()[0].GetHistogram()
	if got.GetSampleCount() != 4 {
		t.Errorf("%d values", got.GetSampleCount())
	}
	for _, b := range got.GetBucket() {
		want := uint64(0)
		for _, v := range []float64{1 << 14, 1<<14 + 1, 1 << 30, 1 << 39} {
			if v <= b.GetUpperBound()*1e9*(1+1e-12) {
				want++
			}
		}
		if b.GetCumulativeCount() != want {
			t.Errorf("up to %v: %d, want %d", b.GetUpperBound(), b.GetCumulativeCount(), want)
		}
	}
}

func BenchmarkText(b *testing.B) {
	r := New(Options{})
	for i := range 20 {
		q := r.Begin()
		q.For(r.Model(fmt.Sprint("model ", i), "1", ""), "")
		q.End(nil)
	}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = r.AppendText(buf[:0], &box{})
	}
	b.ReportMetric(float64(len(buf)), "bytes")
}

// TestProgramsText: devices of programs and what these have of them stand beside the server's, in
// the same metrics, which Prometheus reads.
func TestProgramsText(t *testing.T) {
	r := New(Options{Programs: func() []Programs {
		return []Programs{{Device: "cuda:0", Policy: "priority", Memory: 80, Promised: 40, Held: 9,
			Jobs: []Program{{Name: "train", Cap: 40, Held: 9, Used: 2 * time.Second}}}}
	}})
	r.Model("a", "1", "job")
	f := parsed(t, r.AppendText(nil, &box{used: map[string]time.Duration{"job": time.Second}}))
	on := []string{"device", "cuda:0"}
	of := append(on, "job", "train")
	for _, c := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"weir_device_memory_bytes", on, 80}, {"weir_device_memory_promised_bytes", on, 40},
		{"weir_device_memory_held_bytes", on, 9},
		{"weir_device_memory_bytes", []string{"device", "cpu:0"}, 1 << 30},
		{"weir_policy_info", append(on, "policy", "priority"), 1},
		{"weir_job_memory_cap_bytes", of, 40}, {"weir_job_memory_held_bytes", of, 9},
		{"weir_job_device_seconds_total", of, 2},
		{"weir_job_device_seconds_total", []string{"device", "cpu:0", "job", "job"}, 1},
	} {
		if got := value(t, f, c.name, c.labels...); got != c.want {
			t.Errorf("%s %q is %v, want %v", c.name, c.labels, got, c.want)
		}
	}
	for _, none := range []string{"weir_job_grants_total", "weir_job_entitled_share",
		"weir_job_memory_peak_bytes"} {
		for _, m := range f[none].GetMetric() {
			if has(m, of) {
				t.Errorf("%s tells of a program what is not known", none)
			}
		}
	}
}
