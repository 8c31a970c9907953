package web

// lane is what a name had at each of the last looks, in a ring.
type lane[T any] struct {
	values []T
	last   uint64 // the look of the newest value
}

// put takes the value at look n. Looks in between have the zero value. Values must come in order.
func (l *lane[T]) put(n uint64, length int, v T) {
	var zero T
	if l.values == nil {
		l.values = make([]T, length)
	}
	for at := max(l.last+1, n-min(n, uint64(length))); at < n; at++ {
		l.values[at%uint64(length)] = zero
	}
	l.values[n%uint64(length)] = v
	l.last = n
}

// after appends the values of the looks after from and up to n to dst, as many as there are at
// most, the newest last.
func (l *lane[T]) after(dst []T, from, n uint64) []T {
	var zero T
	length := uint64(len(l.values))
	for at := max(from, n-min(n, length)) + 1; at <= n; at++ {
		v := zero
		if at <= l.last && l.last-at < length {
			v = l.values[at%length]
		}
		dst = append(dst, v)
	}
	return dst
}
