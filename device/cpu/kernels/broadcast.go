package kernels

// rowLoop walks the operands of a numpy broadcast as rows of the output: the trailing dimensions
// along which each operand either runs or stands still are merged into one inner row.
type rowLoop struct {
	dims  []int   // outer dimensions, innermost first
	steps [][]int // for each operand, the elements to step for each outer dimension
	// whether the operand runs along the row; otherwise one of its elements serves the whole row
	runs  []bool
	inner int // elements of a row
	rows  int
}

// maxOperands bounds the operands of a rowLoop.
const maxOperands = 8

// broadcast merges dimensions; shapes, at most maxOperands, are known to broadcast to out, which
// has elements.
func broadcast(out []int, shapes ...[]int) rowLoop {
	l := rowLoop{
		steps: make([][]int, len(shapes)),
		runs:  make([]bool, len(shapes)),
		inner: 1,
		rows:  1,
	}
	size := make([]int, len(shapes)) // elements of each operand inside the dimensions seen so far
	for i := range size {
		size[i] = 1
	}
	started, outer := false, false
	for d := 1; d <= len(out); d++ {
		n := dimFromEnd(out, d)
		if n == 1 {
			continue
		}
		switch {
		case !started:
			started, l.inner = true, n
			for i, s := range shapes {
				l.runs[i] = dimFromEnd(s, d) > 1
			}
		case !outer && l.continues(shapes, d):
			l.inner *= n
		default:
			outer = true
			l.pushOuter(n, shapes, size, d)
		}
		for i, s := range shapes {
			size[i] *= dimFromEnd(s, d)
		}
	}
	for _, n := range l.dims {
		l.rows *= n
	}
	return l
}

// continues reports whether in dimension d, counted from the end, every operand does as it does
// along the row.
func (l *rowLoop) continues(shapes [][]int, d int) bool {
	for i, s := range shapes {
		if dimFromEnd(s, d) > 1 != l.runs[i] {
			return false
		}
	}
	return true
}

// pushOuter adds dimension d, counted from the end, merged with the one inside it when all operands
// step through evenly.
func (l *rowLoop) pushOuter(n int, shapes [][]int, size []int, d int) {
	last := len(l.dims) - 1
	even := last >= 0
	step := make([]int, len(shapes))
	for i, s := range shapes {
		if dimFromEnd(s, d) > 1 {
			step[i] = size[i]
		}
		even = even && l.steps[i][last]*l.dims[last] == step[i]
	}
	if even {
		l.dims[last] *= n
		return
	}
	l.dims = append(l.dims, n)
	for i := range shapes {
		l.steps[i] = append(l.steps[i], step[i])
	}
}

// dimFromEnd is dimension k of a shape counted from its end, from 1; 1 for those that the shape
// does not have.
//
//go:noinline
func dimFromEnd(shape []int, k int) int {
	if k > len(shape) {
		return 1
	}
	return shape[len(shape)-k]
}

// at sets off to where a row starts in each operand.
func (l *rowLoop) at(row int, off *[maxOperands]int) {
	*off = [maxOperands]int{}
	for d, n := range l.dims {
		k := row % n
		row /= n
		for i, s := range l.steps {
			off[i] += k * s[d]
		}
	}
}

// rowChunks cuts a rowLoop into chunks of about mapBlock elements: several rows, or a part of one.
type rowChunks struct {
	loop   rowLoop
	rows   int // rows of a chunk
	parts  int // chunks of a row, when a row is longer than a chunk
	chunks int
}

func cutRows(l rowLoop) rowChunks {
	c := rowChunks{loop: l, rows: max(1, mapBlock/max(1, l.inner)), parts: max(1, blocks(l.inner))}
	c.chunks = (l.rows + c.rows - 1) / c.rows * c.parts
	return c
}

// chunk returns the rows first to last-1 of chunk i and the elements lo to hi-1 of each that are
// its.
func (c *rowChunks) chunk(i int) (first, last, lo, hi int) {
	lo, hi = 0, c.loop.inner
	if c.parts > 1 {
		lo, hi = block(i%c.parts, c.loop.inner)
	}
	first = i / c.parts * c.rows
	return first, min(first+c.rows, c.loop.rows), lo, hi
}
