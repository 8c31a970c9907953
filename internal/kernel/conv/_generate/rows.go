package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

// depthwise writes one depthwise kernel, for either architecture: which inputs meet which weights,
// and which of up to four rows at a time see them, is described here. How columns are cut into
// vectors, and what happens to the last ones, is a [rowsTarget].
type depthwise struct {
	asm.Code
	on rowsTarget
	// square are the windows that the kernel is for, any taps where its size is zero
	square
	labels int
}

// rowsTarget is what an architecture has for depthwise kernels: amd64 masks the last columns and
// takes one vector of columns at a time, arm64 has no masks and takes up to four.
type rowsTarget interface {
	begin(k *depthwise)       // before the weights are read
	weights(k *depthwise)     // reads what the whole call needs of weights and offsets
	group(k *depthwise)       // begins a group of rows
	only(k *depthwise, n int) // goes to the rows of a group that has no more than n
	rows(k *depthwise, n int) // computes a group of n rows by depthwise.sums
	end(k *depthwise)

	together() int                        // inputs of a row that are read before they meet weights
	inputs(k *depthwise, row, v int)      // points to a row of the inputs
	input(k *depthwise, row, kx, v int)   // reads v vectors of one
	tap(k *depthwise, sum, v, ky, kx int) // adds vector v of it times a weight to a sum
	taps(k *depthwise) (again string)     // begins the loop over any taps
	nextTap(k *depthwise)
	anyTap(k *depthwise, row, n, v int) // adds v vectors of what a row sees under any tap
	untilLast(k *depthwise, again string)
}

// square is a window of size x size taps without dilation, down rows and along columns by strides.
type square struct{ size, down, along int }

// squares are the windows that have a kernel of their own.
func squares(v asm.Vector) []square {
	list := []square{{3, 1, 1}, {3, 2, 2}, {3, 2, 1}, {3, 1, 2}}
	if v.Regs > 16 { // which are enough for 25 weights
		list = append(list, square{5, 1, 1}, square{5, 2, 1})
	}
	return list
}

// symbol is the name of the kernel of the windows.
func (q square) symbol(v asm.Vector) string {
	return fmt.Sprintf("rows%dx%ds%dx%d%s", q.size, q.size, q.down, q.along, v.Name)
}

// inputs is the number of input rows that n output rows see.
func (q square) inputs(n int) int { return (n-1)*q.down + q.size }

// depthwises writes the kernels of an instruction set, for any taps and for those windows, and the
// function that picks one.
func depthwises(s *asm.File, v asm.Vector) {
	s.Declare("\n// callRows%s computes t with the kernel of its windows.\n"+
		"func callRows%[1]s(t *rows) {\n\tswitch t.window {\n", v.Name)
	for _, q := range squares(v) {
		s.Declare("\tcase %d:\n\t\t%s(t)\n", 100*q.size+10*q.down+q.along, q.symbol(v))
	}
	s.Declare("\tdefault:\n\t\trows%s(t)\n\t}\n}\n", v.Name)
	for _, q := range append([]square{{}}, squares(v)...) {
		k := &depthwise{Code: asm.Code{File: s, Vector: v}, square: q}
		k.on = &maskedRows{tight: v.Regs == 16 && q.size > 0 || q.size == 5}
		if k.ARM64() {
			k.on = neonRows{}
		}
		k.write()
	}
}

// write writes the kernel: four rows at a time as long as there are four.
func (k *depthwise) write() {
	name, doc := "rows"+k.Name, "computes t; rowsGo defines it."
	if k.ARM64() {
		doc = "computes t, whose limits are set; rowsGo defines it."
	}
	if k.size > 0 {
		name = k.symbol(k.Vector)
		doc = fmt.Sprintf("computes t for %dx%d taps without dilation, %d rows and %d columns "+
			"apart.", k.size, k.size, k.down, k.along)
	}
	k.Func(name, "t *rows", 8, doc)
	k.on.begin(k)
	k.on.weights(k)
	k.Label("group")
	k.on.group(k)
	for n := 3; n >= 1; n-- {
		k.on.only(k, n)
	}
	for n := 4; n >= 1; n-- {
		k.Label(label("rows", n))
		k.on.rows(k, n)
	}
	k.on.end(k)
}

// sums adds all taps of v vectors of columns of n rows, begin before the first tap of a row, end
// after its last one.
func (k *depthwise) sums(n, v int, begin, end func(row int)) {
	if k.size > 0 {
		k.window(n, v, begin, end)
		return
	}
	for i := range n {
		begin(i)
	}
	again := k.on.taps(k)
	k.on.nextTap(k)
	for i := range n {
		k.on.anyTap(k, i, n, v)
	}
	k.on.untilLast(k, again)
	for i := range n {
		end(i)
	}
}

// window reads every input once for all the rows that see it.
func (k *depthwise) window(n, v int, begin, end func(row int)) {
	for row := range k.square.inputs(n) {
		k.on.inputs(k, row, v)
		if row%k.down == 0 && row/k.down < n {
			begin(row / k.down)
		}
		for first := 0; first < k.size; first += k.on.together() {
			last := min(first+k.on.together(), k.size)
			for kx := first; kx < last; kx++ {
				k.on.input(k, row, kx, v)
			}
			for kx := first; kx < last; kx++ {
				k.column(row, kx, n, v)
			}
		}
		if last := row - k.size + 1; last >= 0 && last%k.down == 0 {
			end(last / k.down)
		}
	}
}

// column adds v vectors of a row of the input to the sums of all rows that see it by column kx of
// the taps.
func (k *depthwise) column(row, kx, n, v int) {
	for i := range n {
		if ky := row - i*k.down; ky >= 0 && ky < k.size {
			for vector := range v {
				k.on.tap(k, i*v+vector, vector, ky, kx)
			}
		}
	}
}

// fresh numbers labels that a description writes more than once.
func (k *depthwise) fresh() int {
	k.labels++
	return k.labels
}
