package telemetry

import "slices"

// of returns the versions of a model that are counted.
func (r *Recorder) of(model string) (list []*Model) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, m := range r.models {
		if k.name == model {
			list = append(list, m)
		}
	}
	return list
}

// Answered returns how many requests for a model, all of its versions and accounts together, were
// answered, and how many of them without what they asked for. Both are 0 for a model that is not
// counted. A version that is forgotten no longer counts.
func (r *Recorder) Answered(model string) (all, failed uint64) {
	if r == nil {
		return 0, 0
	}
	for _, m := range r.of(model) {
		for _, a := range *m.accounts.Load() {
			for o := range a.outcomes {
				n := a.outcomes[o].Load()
				if all += n; outcome(o) != ok {
					failed += n
				}
			}
		}
	}
	return all, failed
}

// Latency returns how long requests for a model took, in nanoseconds from the head of each to the
// end of its answer, of those without an error.
func (r *Recorder) Latency(model string) (c Counts) {
	if r == nil {
		return c
	}
	for _, m := range r.of(model) {
		for _, a := range *m.accounts.Load() {
			if c.buckets == nil {
				c = a.time.Counts()
				continue
			}
			a.time.addTo(&c)
		}
	}
	return c
}

// Since returns what was counted after before, an earlier state of the same counts. Where that is
// none, since counting has begun anew, it is all of c.
func (c *Counts) Since(before Counts) Counts {
	later := Counts{Count: c.Count - before.Count, Sum: c.Sum - before.Sum,
		buckets: slices.Clone(c.buckets)}
	for i, n := range before.buckets {
		if i >= len(later.buckets) || n > later.buckets[i] {
			return *c
		}
		later.buckets[i] -= n
	}
	return later
}
