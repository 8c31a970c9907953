package conv

// spread writes src into row so that elements a stride apart are neighbours: element i goes to (q
// mod stride)*phase + q/stride for q = lead+i. Elements with q/stride >= phase are dropped. Nothing
// else is written.
func spread(v level, row, src []float32, lead, stride, phase int) {
	switch {
	case stride == 1:
		if lead < phase {
			copy(row[lead:phase], src)
		}
	case stride == 2:
		spreadTwo(v, row, src, lead, phase)
	default:
		for i, x := range src {
			if q := lead + i; q/stride < phase {
				row[q%stride*phase+q/stride] = x
			}
		}
	}
}

// spreadTwo is spread for a stride of 2.
func spreadTwo(v level, row, src []float32, lead, phase int) {
	first, second := row[:phase], row[phase:2*phase]
	if lead%2 == 1 {
		first, second = second, first
	}
	// Element 0 of src is element at of first; element 1 is element next of second.
	at, next := lead/2, lead/2+lead%2
	pairs := min(len(src)/2, max(0, phase-next))
	if pairs > 0 {
		deinterleave(v, first[at:], second[next:], src, pairs)
	}
	if 2*pairs < len(src) && at+pairs < phase {
		first[at+pairs] = src[2*pairs]
	}
}
