package place

import (
	"cmp"
	"math"

	"github.com/weirgpu/weir/internal/sorting"
)

var prices = Policy{
	Name:   "prices",
	Source: "weir; prices by P. Gilmore and R. Gomory, Operations Research 9(6), 1961",
	What: "the node and device that lose least: to fragments, of what the workload can pack into " +
		"them, and of that for want of CPU",
	score: pricesScore,
}

// What a placement loses is the sum of three losses in thousandths of a device, weighed by what did
// best on the published traces: of fragmentation, as FGD has it but not rounded; of worth, which is
// what free parts of devices are worth by prices; and short, what of that worth the CPU of the node
// does not reach for.
const (
	worthWeighs = 2
	shortWeighs = 2
)

func pricesScore(f *fragments, n *node, s *shape) (int64, Set) {
	was := f.of(n)
	worth := f.worth(n)
	short := f.list.short(worth, n.cpu)
	loss := func(set Set) float64 {
		fragments := float64(f.after(n, s, set)-was) / float64(max(f.weight, 1))
		left := worth - f.worthOf(n, s, set)
		return fragments + worthWeighs*(worth-left) +
			shortWeighs*(f.list.short(left, n.cpu-s.CPU)-short)
	}
	if !s.Share() {
		set := devices(n, s)
		return worst(loss(set)), set
	}
	best, device := int64(-1), -1
	for i, free := range n.free {
		if !free.holds(&s.Request) || seen(n.free[:i], free) {
			continue
		}
		if v := worst(loss(1 << i)); v > best {
			best, device = v, i
		}
	}
	return best, 1 << device
}

// worst turns a loss into a score: a thousandth of a thousandth of a device counts.
func worst(loss float64) int64 {
	const most = maxScore / 2
	return most - int64(max(-most, min(loss*1000, most-1)))
}

// grain is how finely devices are priced.
const grain = 10

// priceList is what parts of devices are worth, and what CPU the workload needs of them.
type priceList struct {
	worth [Whole/grain + 1]float64 // of so many tens of units free on one device
	need  []need                   // of typical shapes, those that need least CPU first
}

// need is what typical shapes need of CPU.
type need struct {
	perCPU float64 // units that a thousandth of a core goes with
	weight float64 // part of the workload's units, of this and all before it
	sum    float64 // of perCPU times weight, of this and all before it
}

func newPriceList(w Workload) *priceList {
	l := &priceList{}
	asked := map[int]float64{}
	var units, cpu float64
	for i := range w {
		t := &w[i]
		if t.Count == 0 {
			continue
		}
		asked[(t.Units+grain-1)/grain] += float64(t.Weight) * float64(t.Count)
		part := float64(t.Weight) * float64(t.TotalUnits())
		units += part
		cpu += float64(t.Weight) * float64(t.CPU)
		l.need = append(l.need, need{float64(max(t.CPU, 1)) / float64(t.TotalUnits()), part, 0})
	}
	for i := range l.need {
		l.need[i].perCPU = 1 / mellow(cpu/units, l.need[i].perCPU)
	}
	sorting.By(l.need, func(a, b need) int { return cmp.Compare(a.perCPU, b.perCPU) })
	var before need
	for i := range l.need {
		n := &l.need[i]
		n.weight /= units
		n.sum = before.sum + float64(n.perCPU*n.weight)
		n.weight += before.weight
		before = *n
	}
	l.value(itemsOf(asked))
	return l
}

// mellow returns the CPU that a unit goes with where a typical shape needs so much of it, and the
// workload so much on average. A node takes several shapes, whose needs even out: the need of one
// counts by its fourth root only. (Roots are exact on every processor, other powers are not.)
func mellow(average, one float64) float64 {
	return math.Sqrt(math.Sqrt(average * average * average * one))
}

// value fills worth in: what a part of a device is worth is what the shapes are that fit into it.
func (l *priceList) value(items []item) {
	if len(items) == 0 {
		return
	}
	p := packer{items: items, prices: cut(items)}
	p.fill()
	for g := range l.worth {
		l.worth[g] = Whole * p.worth[g]
	}
}

// short returns how much of what devices are worth will not be used for want of CPU, if all of the
// node went to one typical shape or another: on average over the workload.
func (l *priceList) short(worth float64, cpu int64) float64 {
	lo, hi := 0, len(l.need)
	for lo < hi {
		if mid := (lo + hi) / 2; l.need[mid].perCPU*float64(cpu) < worth {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return 0
	}
	n := &l.need[lo-1]
	return float64(worth*n.weight) - float64(float64(cpu)*n.sum)
}

// worth returns what the free parts of a node's devices are worth.
func (f *fragments) worth(n *node) (sum float64) {
	for i, s := range n.free {
		sum += f.worthOfSlot(n, i, s)
	}
	return sum
}

// worthOf returns how much less they are worth after a placement.
func (f *fragments) worthOf(n *node, s *shape, set Set) (less float64) {
	for i, free := range n.free {
		if set&(1<<i) != 0 {
			less += f.worthOfSlot(n, i, free) - f.worthOfSlot(n, i, free.without(&s.Request))
		}
	}
	return less
}

// worthOfSlot prices a device by its units, or by its memory where less of that is free.
func (f *fragments) worthOfSlot(n *node, i int, s slot) float64 {
	units := int64(s.units)
	if all := n.spec.Devices[i].Memory; all > 0 {
		units = min(units, int64(float64(s.mem)/float64(all)*Whole))
	}
	return f.list.worth[units/grain]
}
