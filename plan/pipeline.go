package plan

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/internal/sorting"
)

// Layer is weights that are of use only as a whole, and what is computed with them.
type Layer struct {
	Bytes   int64
	Compute time.Duration
}

// Pipeline cuts layers into groups, each of which is one transfer, such that the last layer has
// been computed as early as can be, where transfers follow each other and a group is computed once
// it is there and the one before it has been computed. It returns the number of layers up to the
// end of each group, the last of which is len(layers), and when all has been computed. Of equal
// ways it takes one of the fewest groups.
//
// It prunes the ways of Bai, Zhang, Zhu and Jin, "PipeSwitch: Fast Pipelined Context Switching for
// Deep Learning Applications", OSDI 2020, section 4.2, by their two bounds: a way whose transfers
// alone, or whose computation alone, take as long as the best one known is left out; and a group
// has at least the layers that come while the groups before it are computed. Beyond that, of the
// ways that bring the same layers in as many groups only the one that computes them first is kept.
func Pipeline(b device.Bus, layers []Layer) (ends []int, t time.Duration) {
	n := len(layers)
	if n == 0 {
		return nil, 0
	}
	bring, compute := sums(b, layers)
	// arrive is when the first i layers are there, in so many groups
	arrive := func(i, groups int) time.Duration {
		return bring[i] + time.Duration(groups)*b.PerTransfer
	}
	ways := make([][]way, n+1)
	ways[0] = []way{{}}
	best := arrive(n, 1) + compute[n]
	for i := range n {
		ways[i] = undominated(ways[i])
		for at, w := range ways[i] {
			g, end := w.groups+1, i+1
			for end < n && arrive(end+1, g) <= w.done {
				end++
			}
			for ; end <= n; end++ {
				done := max(arrive(end, g), w.done) + compute[end] - compute[i]
				bound := done + compute[n] - compute[end]
				if end < n {
					bound = max(bound, arrive(n, g+1)+compute[n]-compute[n-1])
				}
				if bound <= best {
					ways[end] = append(ways[end], way{g, done, i, at})
				}
			}
			best = min(best, last(ways[n]).done)
		}
	}
	w := last(ways[n])
	t = w.done
	for end := n; end > 0; w = ways[w.from][w.at] {
		ends = append(ends, end)
		end = w.from
	}
	slices.Reverse(ends)
	return ends, t
}

// Exposed is by how much longer it takes until layers have been computed that come in groups, which
// end as Pipeline says, than until those have been that are there.
func Exposed(b device.Bus, layers []Layer, ends []int) time.Duration {
	bring, compute := sums(b, layers)
	var done time.Duration
	from := 0
	for g, end := range ends {
		there := bring[end] + time.Duration(g+1)*b.PerTransfer
		done = max(done, there) + compute[end] - compute[from]
		from = end
	}
	return done - compute[len(layers)]
}

// way is one to bring and compute some layers.
type way struct {
	groups   int
	done     time.Duration // when they have been computed
	from, at int           // where its last group begins, and which way it follows there
}

// sums are the times of bringing and of computing the first i layers.
func sums(b device.Bus, layers []Layer) (bring, compute []time.Duration) {
	bring, compute = make([]time.Duration, len(layers)+1), make([]time.Duration, len(layers)+1)
	var bytes int64
	for i, x := range layers {
		bytes += x.Bytes
		bring[i+1] = time.Duration(math.Round(float64(bytes) / b.BytesPerS * float64(time.Second)))
		compute[i+1] = compute[i] + x.Compute
	}
	return bring, compute
}

// undominated leaves out the ways beside which another is done no later and has no more groups.
func undominated(ways []way) []way {
	sorting.By(ways, func(a, b way) int {
		return cmp.Or(cmp.Compare(a.groups, b.groups), cmp.Compare(a.done, b.done))
	})
	kept := ways[:0]
	for _, w := range ways {
		if len(kept) == 0 || w.done < kept[len(kept)-1].done {
			kept = append(kept, w)
		}
	}
	return kept
}

// last is the way that is done first, that of the fewest groups where several are.
func last(ways []way) way {
	w := way{done: math.MaxInt64}
	for _, x := range ways {
		if x.done < w.done || x.done == w.done && x.groups < w.groups {
			w = x
		}
	}
	return w
}

// Layers are the stretches of the packed weights between [Plan.Borders], each with the steps from
// the first that needs it to before the next such, on a device that computes so many operations and
// moves so many bytes a second (see [Plan.Estimate]). Steps before the first weights are left out.
func (p *Plan) Layers(flopsPerS, bytesPerS float64) []Layer {
	return p.LayersOf(func(st *Step) time.Duration {
		return time.Duration(st.seconds(flopsPerS, bytesPerS) * float64(time.Second))
	})
}

// LayersOf is [Plan.Layers] where steps take what somebody has measured, or thinks.
func (p *Plan) LayersOf(took func(st *Step) time.Duration) (layers []Layer) {
	var last int64
	for i := range p.Steps {
		st := &p.Steps[i]
		if st.needs > last {
			layers = append(layers, Layer{Bytes: st.needs - last})
			last = st.needs
		}
		if n := len(layers); n > 0 {
			layers[n-1].Compute += took(st)
		}
	}
	return layers
}
