package place

import (
	"cmp"

	"github.com/weirgpu/weir/internal/sorting"
)

// item is a size that is asked for, in tens of units, and which part of all that is asked for.
type item struct {
	size int
	part float64
}

func itemsOf(asked map[int]float64) []item {
	var items []item
	sum := 0.0
	for size, n := range asked {
		items = append(items, item{size, n})
	}
	sorting.By(items, func(a, b item) int { return -cmp.Compare(a.size, b.size) })
	for i := range items {
		sum += items[i].part
	}
	for i := range items {
		items[i].part /= sum
	}
	return items
}

// cut returns prices of items, in devices: the dual solution of the smallest number of devices that
// all items can be cut from in their proportions. No way to cut a device is worth more than one
// device by them, and those in use are worth one. Ways to cut are added one by one while there is
// one worth more (Gilmore and Gomory's column generation); the inverse of the basis is kept.
func cut(items []item) []float64 {
	p := packer{items: items, prices: make([]float64, len(items))}
	inverse := make([][]float64, len(items))
	amount := make([]float64, len(items)) // of devices cut in each way
	for i, it := range items {
		inverse[i] = make([]float64, len(items))
		inverse[i][i] = 1 / float64((len(p.worth)-1)/it.size)
		amount[i] = it.part * inverse[i][i]
	}
	const most, enough = 2000, 1e-9
	for range most {
		for j := range items {
			p.prices[j] = 0
			for i := range items {
				p.prices[j] += inverse[i][j]
			}
		}
		p.fill()
		if p.worth[len(p.worth)-1] <= 1+enough {
			break
		}
		pivot(inverse, amount, p.best())
	}
	for j := range p.prices {
		p.prices[j] = max(0, p.prices[j])
	}
	return p.prices
}

// pivot takes a way to cut into the basis, for the one that runs out first.
func pivot(inverse [][]float64, amount, way []float64) {
	in := make([]float64, len(way))
	out := -1
	for i := range in {
		for j, n := range way {
			in[i] += float64(inverse[i][j] * n)
		}
		if in[i] > 1e-9 && (out < 0 || amount[i]*in[out] < amount[out]*in[i]) {
			out = i
		}
	}
	if out < 0 {
		return
	}
	for j := range inverse[out] {
		inverse[out][j] /= in[out]
	}
	amount[out] /= in[out]
	for i := range inverse {
		if i == out || in[i] == 0 {
			continue
		}
		for j := range inverse[i] {
			inverse[i][j] -= float64(in[i] * inverse[out][j])
		}
		amount[i] -= float64(in[i] * amount[out])
	}
}

// packer finds the most that can be packed into a part of a device.
type packer struct {
	items  []item
	prices []float64
	worth  [Whole/grain + 1]float64
	pick   [Whole/grain + 1]int // the item to begin with, or -1 to leave a grain free
}

func (p *packer) fill() {
	p.pick[0] = -1
	for g := 1; g < len(p.worth); g++ {
		p.worth[g], p.pick[g] = p.worth[g-1], -1
		for i, it := range p.items {
			if it.size > g {
				continue
			}
			if w := p.prices[i] + p.worth[g-it.size]; w > p.worth[g]+1e-12 {
				p.worth[g], p.pick[g] = w, i
			}
		}
	}
}

// best returns how many of each item the best way to cut a device has.
func (p *packer) best() []float64 {
	way := make([]float64, len(p.items))
	for g := len(p.worth) - 1; g > 0; {
		if i := p.pick[g]; i >= 0 {
			way[i]++
			g -= p.items[i].size
		} else {
			g--
		}
	}
	return way
}
