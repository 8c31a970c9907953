package main

import (
	"slices"
	"strings"
)

// operation is an instruction of a body that waits to be written.
type operation struct {
	mnemonic string
	operands []any
}

// conflicts says that the order of the two matters: one writes what the other reads or writes. The
// last operand is the one written.
func (o operation) conflicts(later operation) bool {
	for i, x := range o.operands {
		for j, y := range later.operands {
			if place(x) == place(y) && place(x) != nil &&
				(i == len(o.operands)-1 || j == len(later.operands)-1) {
				return true
			}
		}
	}
	return false
}

// written is where the result goes.
func (o operation) written() any { return place(o.operands[len(o.operands)-1]) }

// place is what an operand is read from or written to, nil for a number.
func place(operand any) any {
	switch v := operand.(type) {
	case mask: // which is a vector on arm64
		return v.vector
	case accumulator:
		return "accumulator"
	case int:
		return nil
	}
	return operand
}

// follows says that the operation reads, or writes again, what the other has written.
func (o operation) follows(earlier operation) bool {
	return slices.ContainsFunc(o.operands, func(x any) bool {
		return place(x) != nil && place(x) == earlier.written()
	})
}

// latency is about how many operations, for all copies, begin before the result is there.
func (o operation) latency() int {
	switch {
	case strings.HasPrefix(o.mnemonic, "VDIV"), strings.HasPrefix(o.mnemonic, "VSQRT"):
		return 10
	case strings.HasSuffix(o.mnemonic, "PS") && !strings.HasPrefix(o.mnemonic, "VMOV"):
		return 2
	}
	return 1
}

// interleaved returns operations in an order in which as few as possible wait: of those whose
// operands are there the one with the longest chain behind it is next. A processor looks for work
// in no more than some tens of instructions, and finds none where polynomials of one body follow
// each other.
func interleaved(all []operation) []operation {
	behind := make([]int, len(all)) // how long the chain is that begins with it
	for i := len(all) - 1; i >= 0; i-- {
		for j := i + 1; j < len(all); j++ {
			if all[i].conflicts(all[j]) {
				behind[i] = max(behind[i], behind[j])
			}
		}
		behind[i] += all[i].latency()
	}
	var order []operation
	at := make([]int, len(all)) // when it began, from 1 on
	for now := 1; len(order) < len(all); {
		best, soonest := -1, 0
		for i := range all {
			if at[i] > 0 {
				continue
			}
			ready, ok := readyAt(all, at, i)
			switch {
			case !ok:
			case best < 0, ready <= now && soonest > now, ready <= now && behind[i] > behind[best],
				ready < soonest && soonest > now:
				best, soonest = i, ready
			}
		}
		now = max(now, soonest)
		at[best] = now
		order = append(order, all[best])
		now++
	}
	return order
}

// readyAt is when operation i may begin; not ok where one that it must follow has not begun.
func readyAt(all []operation, at []int, i int) (when int, ok bool) {
	for j := range i {
		if !all[j].conflicts(all[i]) {
			continue
		}
		if at[j] == 0 {
			return 0, false
		}
		after := 1
		if all[i].follows(all[j]) {
			after = all[j].latency()
		}
		when = max(when, at[j]+after)
	}
	return when, true
}
