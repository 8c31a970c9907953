package telemetry

import (
	"cmp"

	"github.com/weirgpu/weir/internal/sorting"
	"github.com/weirgpu/weir/server/oip"
)

// Statistics returns what a model came to, as Triton counts it.
func (m *Model) Statistics() oip.Statistics {
	queue, compute := m.queue.Counts(), m.compute.Counts()
	n, hits := m.succeeded.count.Load(), m.hits.count.Load()
	s := oip.Statistics{Name: m.name, Version: m.version, Inferences: m.rows.Load(),
		Executions: m.executions.Load(), Batches: m.sizes(),
		Requests: oip.RequestStatistics{
			Success: oip.Duration{Count: n, NS: m.succeeded.ns.Load()},
			Fail:    oip.Duration{Count: m.failed.count.Load(), NS: m.failed.ns.Load()},
			Queue:   oip.Duration{Count: queue.Count, NS: queue.Sum},
			Input:   oip.Duration{Count: n - hits, NS: m.input.Load()},
			Infer:   oip.Duration{Count: compute.Count, NS: compute.Sum},
			Output:  oip.Duration{Count: n - hits, NS: m.output.Load()},

			CacheHit:  oip.Duration{Count: hits, NS: m.hits.ns.Load()},
			CacheMiss: oip.Duration{Count: m.misses.count.Load(), NS: m.misses.ns.Load()},
		}}
	if last := m.last.Load(); last != 0 {
		s.LastInference = uint64(m.of.date(last).UnixMilli())
	}
	return s
}

// sizes are the statistics of executions by their size.
func (m *Model) sizes() []oip.BatchStatistics {
	list := []oip.BatchStatistics{}
	m.sizing.Lock()
	defer m.sizing.Unlock()
	for n, s := range m.bySize {
		list = append(list, oip.BatchStatistics{Size: uint64(n),
			Input:  oip.Duration{Count: s.count, NS: s.input},
			Infer:  oip.Duration{Count: s.count, NS: s.infer},
			Output: oip.Duration{Count: s.count, NS: s.output}})
	}
	sorting.By(list, func(a, b oip.BatchStatistics) int { return cmp.Compare(a.Size, b.Size) })
	return list
}

// tritonMetrics are metrics of Triton's that mean the same here.
var tritonMetrics = []struct {
	name, kind, help string
	value            func(*oip.Statistics) uint64
}{
	{"nv_inference_request_success", counter, "Requests that were answered without an error.",
		func(s *oip.Statistics) uint64 { return s.Requests.Success.Count }},
	{"nv_inference_request_failure", counter, "Requests that were answered by an error.",
		func(s *oip.Statistics) uint64 { return s.Requests.Fail.Count }},
	{"nv_inference_count", counter, "Rows that were computed.",
		func(s *oip.Statistics) uint64 { return s.Inferences }},
	{"nv_inference_exec_count", counter, "Executions, of one request or several.",
		func(s *oip.Statistics) uint64 { return s.Executions }},
	{"nv_inference_request_duration_us", counter, "From admission to the answer.",
		func(s *oip.Statistics) uint64 { return s.Requests.Success.NS / 1000 }},
	{"nv_inference_queue_duration_us", counter, "How long requests waited.",
		func(s *oip.Statistics) uint64 { return s.Requests.Queue.NS / 1000 }},
	{"nv_inference_compute_input_duration_us", counter, "How long inputs took into place.",
		func(s *oip.Statistics) uint64 { return s.Requests.Input.NS / 1000 }},
	{"nv_inference_compute_infer_duration_us", counter, "How long models ran.",
		func(s *oip.Statistics) uint64 { return s.Requests.Infer.NS / 1000 }},
	{"nv_inference_compute_output_duration_us", counter, "How long answers took out.",
		func(s *oip.Statistics) uint64 { return s.Requests.Output.NS / 1000 }},
	{"nv_cache_num_hits_per_model", counter, "Requests that had an answer which was kept.",
		func(s *oip.Statistics) uint64 { return s.Requests.CacheHit.Count }},
	{"nv_cache_num_misses_per_model", counter, "Requests whose own answer was kept.",
		func(s *oip.Statistics) uint64 { return s.Requests.CacheMiss.Count }},
	{"nv_cache_hit_duration_per_model", counter, "How long answers took to find, in microseconds.",
		func(s *oip.Statistics) uint64 { return s.Requests.CacheHit.NS / 1000 }},
	{"nv_cache_miss_duration_per_model", counter, "How long looking for answers and keeping them " +
		"took, in microseconds.",
		func(s *oip.Statistics) uint64 { return s.Requests.CacheMiss.NS / 1000 }},
}
