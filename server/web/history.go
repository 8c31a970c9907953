package web

import (
	"time"

	"github.com/weirgpu/weir/server/telemetry"
)

// The times over which figures are taken, in looks. Counts of latencies are kept at each so many.
const (
	rateLooks    = 10
	latencyLooks = 20
	latencyStep  = 4
)

// history is what is remembered of a model for its figures and charts.
type history struct {
	requests, errors int64 // at the last look
	points           lane[point]

	now    telemetry.Counts                               // of latencies at the last look
	before [latencyLooks/latencyStep + 1]telemetry.Counts // and earlier, the oldest first
}

// point is a model at one look.
type point struct {
	requests, errors uint32 // since the look before
	queue            uint32
	p50, p99         float32 // in milliseconds; 0 where there were no requests
	used             float32
	held             int64
}

// since returns how much a count has grown; one that is less than before has begun anew.
func since(now, before int64) int64 {
	if now < before {
		return now
	}
	return now - before
}

// see takes a model's counts at look n, passed after the look before, and the device time that it
// used since, and fills in its rate and what it had of the device. It returns whether requests were
// answered.
func (h *history) see(n uint64, m *Model, used, passed time.Duration) (asked bool) {
	var p point
	if h.points.values != nil {
		m.Used = round(min(float64(used)/float64(passed), 1), 3)
		p.requests = uint32(since(m.Requests, h.requests))
		p.errors = uint32(since(m.Errors, h.errors))
	}
	p.queue, p.used, p.held = uint32(m.Queue), float32(m.Used), m.Held
	asked = m.Requests != h.requests
	h.requests, h.errors = m.Requests, m.Errors
	h.points.put(n, chartLooks, p)
	var sum int64
	for _, q := range h.points.after(nil, n-min(n, rateLooks), n) {
		sum += int64(q.requests)
	}
	m.Rate = round(float64(sum)/(rateLooks*Period.Seconds()), 1)
	return asked
}

// latency fills in the percentiles of late.
func (h *history) latency(n uint64, m *Model) {
	if n%latencyStep == 0 {
		copy(h.before[:], h.before[1:])
		h.before[len(h.before)-1] = h.now
	}
	late := h.now.Since(h.before[0])
	if late.Count == 0 {
		return
	}
	p50, p99 := round(late.Quantile(0.5)/1e6, 3), round(late.Quantile(0.99)/1e6, 3)
	m.P50, m.P99 = &p50, &p99
	p := &h.points.values[n%uint64(len(h.points.values))]
	p.p50, p.p99 = float32(p50), float32(p99)
}

// History is what the charts of a model are drawn of: the answer to GET
// /v1/models/MODEL/history. A value stands for a Period, and the last of each list is that at Time.
type History struct {
	Time     int64     `json:"time_ms"`
	Period   float64   `json:"period_ms"`
	Requests []uint32  `json:"requests"`
	Errors   []uint32  `json:"errors"`
	Queue    []uint32  `json:"queue"`
	P50      []float64 `json:"p50_ms"` // over the last ten seconds; 0 where there were no requests
	P99      []float64 `json:"p99_ms"`
	Used     []float64 `json:"device_share"`
	Held     []int64   `json:"memory_held_bytes"`
}

// history returns that of a model; false where nothing is known of it.
func (p *Page) history(model string) (h History, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.histories[model]
	if of == nil {
		return h, false
	}
	h = History{Time: p.at.UnixMilli(), Period: Period.Seconds() * 1000}
	for _, q := range of.points.after(nil, p.n-min(p.n, chartLooks), p.n) {
		h.Requests = append(h.Requests, q.requests)
		h.Errors = append(h.Errors, q.errors)
		h.Queue = append(h.Queue, q.queue)
		h.P50 = append(h.P50, round(float64(q.p50), 3))
		h.P99 = append(h.P99, round(float64(q.p99), 3))
		h.Used = append(h.Used, round(float64(q.used), 3))
		h.Held = append(h.Held, q.held)
	}
	return h, true
}
