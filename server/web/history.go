package web

import (
	"slices"
	"time"
)

// The times over which figures are taken, in looks.
const (
	rateLooks    = 10
	latencyLooks = 20
)

// history is what is remembered of a model for its figures and charts.
type history struct {
	used             time.Duration // of the job at the last look
	requests, errors int64         // likewise
	points           lane[point]
	counts           [latencyLooks + 1][]int64 // of latencies at the last looks, in a ring
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

// see takes a model's counts at look n, passed after the look before, and fills in its rate and
// what it had of the device.
func (h *history) see(n uint64, m *Model, used, passed time.Duration) {
	var p point
	if h.points.values != nil {
		part := float64(since(int64(used), int64(h.used))) / float64(passed)
		m.Used = round(min(part, 1), 3)
		p.requests = uint32(since(m.Requests, h.requests))
		p.errors = uint32(since(m.Errors, h.errors))
	}
	p.queue, p.used, p.held = uint32(m.Queue), float32(m.Used), m.Held
	if h.points.last+1 != n { // it was away
		h.counts = [latencyLooks + 1][]int64{}
	}
	h.used, h.requests, h.errors = used, m.Requests, m.Errors
	h.points.put(n, chartLooks, p)
	var sum int64
	for _, q := range h.points.after(nil, n-min(n, rateLooks), n) {
		sum += int64(q.requests)
	}
	m.Rate = round(float64(sum)/(rateLooks*Period.Seconds()), 1)
}

// latency takes the counts of a model's latencies at look n, and fills in the percentiles of late.
func (h *history) latency(n uint64, m *Model, bounds []float64, counts []int64) {
	before := h.counts[(n+1)%uint64(len(h.counts))]
	h.counts[n%uint64(len(h.counts))] = counts
	late := slices.Clone(counts)
	for i, c := range before {
		late[i] = since(late[i], c)
	}
	p50, ok := quantile(bounds, late, 0.5)
	if !ok {
		return
	}
	p99, _ := quantile(bounds, late, 0.99)
	p50, p99 = round(1000*p50, 3), round(1000*p99, 3)
	m.P50, m.P99 = &p50, &p99
	p := &h.points.values[n%uint64(len(h.points.values))]
	p.p50, p.p99 = float32(p50), float32(p99)
}

// quantile returns the value below which a part q of what is counted lies, by the bounds of the
// buckets and linear between two of them; false where nothing is counted.
func quantile(bounds []float64, counts []int64, q float64) (v float64, ok bool) {
	var all int64
	for _, c := range counts {
		all += c
	}
	if all == 0 {
		return 0, false
	}
	want, below := q*float64(all), int64(0)
	for i, c := range counts {
		if c == 0 || float64(below+c) < want {
			below += c
			continue
		}
		if i == len(bounds) {
			break
		}
		low := 0.0
		if i > 0 {
			low = bounds[i-1]
		}
		return low + (bounds[i]-low)*(want-float64(below))/float64(c), true
	}
	return bounds[len(bounds)-1], true
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
