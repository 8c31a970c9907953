package live

// Fair orders requests of several namespaces so that each is served in proportion to its weight
// while it has something to ask for, and none can be ahead by having asked for nothing before:
// start-time fair queuing (P. Goyal, H. Vin, H. Cheng, IEEE/ACM Transactions on Networking 5(5),
// 1997). A request has a tag from when it comes until it goes, which never changes: lower ones are
// first.
type Fair struct {
	now  float64            // tag of what was served last
	ends map[string]float64 // by namespace: where its next request begins
	tags map[string]tag
}

type tag struct {
	namespace string
	start     float64
	end       float64
}

// NewFair returns an order of nothing.
func NewFair() *Fair { return &Fair{ends: map[string]float64{}, tags: map[string]tag{}} }

// Tag returns the tag of a request, which it gets when it is first asked about: of what cost, above
// 0, and of which namespace with what weight, above 0. Later costs and weights are not looked at.
func (f *Fair) Tag(key, namespace string, cost, weight float64) float64 {
	t, ok := f.tags[key]
	if !ok {
		t = tag{namespace: namespace, start: max(f.now, f.ends[namespace])}
		t.end = t.start + cost/weight
		f.tags[key], f.ends[namespace] = t, t.end
	}
	return t.start
}

// Served notes that a request was placed, and forgets it.
func (f *Fair) Served(key string) {
	t, ok := f.tags[key]
	if !ok {
		return
	}
	delete(f.tags, key)
	if t.start > f.now {
		f.now = t.start
		for namespace, end := range f.ends {
			if end <= f.now {
				delete(f.ends, namespace) // as good as new
			}
		}
	}
}

// Gone forgets a request that was never placed. If it was its namespace's last one, the namespace
// has not asked for it.
func (f *Fair) Gone(key string) {
	t, ok := f.tags[key]
	if !ok {
		return
	}
	delete(f.tags, key)
	if f.ends[t.namespace] == t.end {
		f.ends[t.namespace] = t.start
	}
}
