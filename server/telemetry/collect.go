package telemetry

import (
	"runtime"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
)

// The bounds of the buckets in the text: two to each power of two.
var (
	seconds = newBounds(1e9, steps(14, 36)...) // from 16 µs to 69 s
	rows    = newBounds(1, steps(0, 12)...)    // from 1 to 4096
)

// steps are the powers of two between those of two exponents, and the means of each two of them.
func steps(from, to int) (list []uint64) {
	for e := from; e < to; e++ {
		list = append(list, 1<<e)
		if e > 0 {
			list = append(list, 3<<(e-1))
		}
	}
	return append(list, 1<<to)
}

// AppendText appends all metrics in Prometheus' text format.
func (r *Recorder) AppendText(dst []byte, s Source) []byte {
	t := &text{buf: dst}
	r.server(t, s.Ready())
	answers, bytes := s.Kept()
	t.family("weir_kept_answers", gauge, "Answers that are kept for equal requests.")
	t.whole("", uint64(answers))
	t.family("weir_kept_bytes", gauge, "Bytes of those answers.")
	t.whole("", uint64(bytes))
	st := s.Status()
	devices(t, st, r.programs())
	models := r.list()
	r.byAccount(t, append([]*Model{r.none}, models...))
	byModel(t, models)
	r.resident(t, models, st.Jobs)
	byTriton(t, models)
	r.tracing.text(t)
	return t.buf
}

func (r *Recorder) server(t *text, ready bool) {
	t.family("weir_build_info", gauge, "1, with the version of the program and of Go.")
	t.whole(label("version", r.o.Version).and(label("go", runtime.Version())), 1)
	t.family("weir_ready", gauge, "Whether all models are loaded and the server is not stopping.")
	var is uint64
	if ready {
		is = 1
	}
	t.whole("", is)
	t.family("weir_load", gauge, "Device time that requests demand over what there is, over 15 s: "+
		"1 is full, more is beyond.")
	t.number("", r.Load())
}

// devices writes what the server's device and its jobs have, and those of programs.
func devices(t *text, st weir.HostStatus, programs []Programs) {
	list := []Programs{{Device: st.Device, Policy: st.Policy, Memory: st.Memory,
		Promised: st.Promised, Held: st.Held}}
	list = append(list, programs...)
	each := func(sample func(on labels, d *Programs)) {
		for i := range list {
			sample(label("device", list[i].Device), &list[i])
		}
	}
	for _, m := range []struct {
		name, help string
		value      func(*Programs) weir.Bytes
	}{
		{"weir_device_memory_bytes", "Memory that may be promised.",
			func(d *Programs) weir.Bytes { return d.Memory }},
		{"weir_device_memory_promised_bytes", "Sum of the jobs' caps.",
			func(d *Programs) weir.Bytes { return d.Promised }},
		{"weir_device_memory_held_bytes", "Memory that jobs hold.",
			func(d *Programs) weir.Bytes { return d.Held }},
	} {
		t.family(m.name, gauge, m.help)
		each(func(on labels, d *Programs) { t.whole(on, uint64(m.value(d))) })
	}
	t.family("weir_policy_info", gauge, "1, with the policy that decides who runs.")
	each(func(on labels, d *Programs) { t.whole(on.and(label("policy", d.Policy)), 1) })
	t.family("weir_policy_faults_total", counter, "Instructions of policies that could not be "+
		"carried out.")
	t.whole(label("device", st.Device), uint64(st.Faults))
	for _, m := range jobMetrics {
		t.family(m.name, m.kind, m.help)
		for i := range st.Jobs {
			j := &st.Jobs[i]
			t.number(label("device", st.Device).and(label("job", j.Name)), m.value(j))
		}
		if !m.programs {
			continue
		}
		each(func(on labels, d *Programs) {
			for i := range d.Jobs {
				t.number(on.and(label("job", d.Jobs[i].Name)), m.value(d.Jobs[i].usage()))
			}
		})
	}
}

// jobMetrics are those of each job of a device, and which of them programs have.
var jobMetrics = []struct {
	name, kind, help string
	programs         bool
	value            func(*weir.Usage) float64
}{
	{"weir_job_memory_cap_bytes", gauge, "The most memory that a job may hold.", true,
		func(j *weir.Usage) float64 { return float64(j.Share.Memory) }},
	{"weir_job_memory_held_bytes", gauge, "Memory that a job holds.", true,
		func(j *weir.Usage) float64 { return float64(j.Memory) }},
	{"weir_job_memory_shared_bytes", gauge, "Memory of what a job holds that others use, too: it " +
		"is held once.", false, func(j *weir.Usage) float64 { return float64(j.Shared) }},
	{"weir_job_memory_peak_bytes", gauge, "The most memory that a job has held.", false,
		func(j *weir.Usage) float64 { return float64(j.Peak) }},
	{"weir_job_device_seconds_total", counter, "Device time charged: half of a device for two " +
		"seconds is one.", true, func(j *weir.Usage) float64 { return j.Used.Seconds() }},
	{"weir_job_entitled_share", gauge, "The fraction of the device that a job was entitled to in " +
		"the seconds in which it had work.", false,
		func(j *weir.Usage) float64 { return j.Entitled }},
	{"weir_job_copied_bytes_total", counter, "Bytes moved between host and device.", false,
		func(j *weir.Usage) float64 { return float64(j.Copied) }},
	{"weir_job_grants_total", counter, "How often a job was granted the device.", false,
		func(j *weir.Usage) float64 { return float64(j.Grants) }},
	{"weir_job_revocations_total", counter, "How often a job was asked for the device before its " +
		"time.", false, func(j *weir.Usage) float64 { return float64(j.Revocations) }},
}

// byAccount writes what is counted by model, version and account.
func (r *Recorder) byAccount(t *text, models []*Model) {
	each := func(visit func(*account)) {
		for _, m := range models {
			for _, a := range m.byAccount() {
				visit(a)
			}
		}
	}
	t.family("weir_requests_total", counter, "Requests that were answered, by outcome.")
	each(func(a *account) {
		for o := range a.outcomes {
			if n := a.outcomes[o].Load(); n > 0 || outcome(o) == ok && a.time != nil {
				t.whole(a.labels.and(label("outcome", names[o])), n)
			}
		}
	})
	t.family("weir_request_rows_total", counter, "Rows that were answered without an error.")
	each(func(a *account) { t.whole(a.labels, a.rows.Load()) })
	t.family("weir_request_bytes_total", counter, "Bytes of requests' bodies, as they were sent.")
	each(func(a *account) { t.whole(a.labels, a.in.Load()) })
	t.family("weir_response_bytes_total", counter, "Bytes of answers, as they were sent.")
	each(func(a *account) { t.whole(a.labels, a.out.Load()) })
	t.family("weir_request_seconds", histogram, "From a request's head to the end of its answer, "+
		"of those without an error.")
	each(func(a *account) {
		c := a.time.Counts()
		t.histogram(a.labels, &c, seconds)
	})
}

// byModel writes what is counted by model and version.
func byModel(t *text, models []*Model) {
	for _, m := range []struct {
		name, help string
		of         func(*Model) *Histogram
		as         *bounds
	}{
		{"weir_queue_seconds", "How long requests waited for their turn, for others to run with, " +
			"and for the device.", func(m *Model) *Histogram { return m.queue }, seconds},
		{"weir_compute_seconds", "How long models ran for requests.",
			func(m *Model) *Histogram { return m.compute }, seconds},
		{"weir_batch_rows", "Rows of executions.",
			func(m *Model) *Histogram { return m.batches }, rows},
	} {
		t.family(m.name, histogram, m.help)
		for _, model := range models {
			c := m.of(model).Counts()
			t.histogram(model.labels, &c, m.as)
		}
	}
	t.family("weir_queue_length", gauge, "Requests that wait.")
	for _, m := range models {
		t.whole(m.labels, uint64(max(m.waiting.Load(), 0)))
	}
}

// resident writes what models hold of the device's memory: 0 of one that is away. A pipeline holds
// nothing itself, and has no sample.
func (r *Recorder) resident(t *text, models []*Model, jobs []weir.Usage) {
	held := make(map[string]weir.Bytes, len(jobs))
	for i := range jobs {
		held[jobs[i].Name] = jobs[i].Memory
	}
	t.family("weir_model_resident_bytes", gauge, "Memory of the device that a model holds: 0 of "+
		"one that is away.")
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range models {
		if bytes, loaded := held[m.job]; loaded {
			t.whole(m.labels, uint64(bytes))
		}
	}
}

// byTriton writes the names of Triton's metrics (docs/user_guide/metrics.md) that mean the same.
func byTriton(t *text, models []*Model) {
	list := make([]oip.Statistics, len(models))
	for i, m := range models {
		list[i] = m.Statistics()
	}
	for _, m := range tritonMetrics {
		t.family(m.name, m.kind, m.help)
		for i := range models {
			t.whole(models[i].labels, m.value(&list[i]))
		}
	}
	t.family("nv_inference_pending_request_count", gauge, "weir_queue_length.")
	for _, m := range models {
		t.whole(m.labels, uint64(max(m.waiting.Load(), 0)))
	}
}
