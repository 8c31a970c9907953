package main

import "fmt"

// way is how a step along K is multiplied: what is read of A and B, and which instructions meet
// them on either architecture.
type way interface {
	// grid is the rows and columns of the registers that results are added up in.
	grid(t *tile) (rows, columns int)
	most() int            // columns of registers of results, on arm64
	strided(t *tile) bool // steps of A lie tile.lda apart, and else side by side
	words(t *tile) int    // words of each row of A that a step takes
	apart(t *tile) int    // the power of two by which tile.ldb becomes the bytes of a step of B
	unroll(t *tile) int   // how many steps are taken at a time
	parts(t *tile) int    // in how many parts a step of B is read
	walks(t *tile) bool   // reading a step of B moves the pointer on to the next
	begin(t *tile)        // before the first step
	read(t *tile, u int)  // at the begin of a step
	load(t *tile, u, p int) part
	// element is an element of A, of a row of the grid, that meets a part of B.
	element(t *tile, u, i, p int) element
	multiply(t *tile, acc int, a element, b int)
	end(t *tile)    // at the end of a step
	settle(t *tile) // after the last one: what results lack
}

// element is where an element of A is: in every lane of a register, in one, or in memory.
type element struct {
	reg, lane int
	memory    string
}

// plain is the way of a register of results for each of the tile's, without anything beside the
// products.
type plain struct{}

func (plain) grid(t *tile) (rows, columns int) { return t.rows, t.nv }
func (plain) most() int                        { return 4 }
func (plain) words(*tile) int                  { return 1 }
func (plain) apart(*tile) int                  { return 2 }
func (plain) walks(*tile) bool                 { return false }
func (plain) end(*tile)                        {}

// step is the address of step u of those at B's pointer, less how far into it.
func stepOfB(u int) string {
	return []string{"(DI)", "(DI)(R10*1)", "(DI)(R10*2)", "(DI)(R11*1)"}[u]
}

// stepOfA is the same for A: element i of step u.
func (t *tile) stepOfA(u, i int) string {
	if t.lying {
		return fmt.Sprintf("%d(SI)%s", 4*u, lyingRows[i])
	}
	if !t.way.strided(t) {
		return fmt.Sprintf("%d(SI)", 4*(u*t.rows+i))
	}
	return fmt.Sprintf("%d(SI)%s", 4*i, []string{"", "(AX*1)", "(AX*2)", "(R13*1)"}[u])
}

// loadA reads the elements of A of one step into registers, of which no more are read than there
// are; what is left of the registers is zero.
func (t *tile) loadA() {
	lanes := t.lanes()
	for i := 0; i < t.rows; {
		n := 1
		for i+n < t.rows && lanes[i+n].reg == lanes[i].reg {
			n++
		}
		t.Op("%s %d(R2), F%d", map[int]string{1: "FMOVS", 2: "FMOVD", 4: "FMOVQ"}[n], 4*i,
			lanes[i].reg)
		i += n
	}
}

// roundOfA is how many registers hold what tiles of dense rows read of A ahead of the steps.
const roundOfA = 4

// loadRound reads the elements of A that a step of a round is the first to need, and moves the
// pointer on. A round of four steps fills as many registers as the tile has rows, two at a time.
func (t *tile) loadRound(u int) {
	first := func(step int) int { return (step*t.rows + 7) / 8 * 2 } // that no step before needs
	for r := first(u); r < min(first(u+1), t.rows); r += 2 {
		reg := t.tmp(r % roundOfA)
		if r+1 < t.rows {
			t.Op("FLDPQ.P 32(R2), (F%d, F%d)", reg, reg+1)
		} else {
			t.Op("FMOVQ.P 16(R2), F%d", reg)
		}
	}
}

// laneOfRound is where loadRound has put an element of A.
func (t *tile) laneOfRound(u, i int) element {
	at := u*t.rows + i
	return element{reg: t.tmp(at / 4 % roundOfA), lane: at % 4}
}

// lanes are the register and lane of the element of A of each row: four, two or one to a register.
func (t *tile) lanes() (list []element) {
	at, reg := 0, t.tmp(0)
	for at < t.rows {
		n := min(t.rows-at, 4)
		if n == 3 {
			n = 2
		}
		for i := range n {
			list = append(list, element{reg: reg, lane: i})
		}
		at, reg = at+n, reg+1
	}
	return list
}

// registersOfA are those that loadA fills.
func (t *tile) registersOfA() []int {
	lanes := t.lanes()
	return consecutive(t.tmp(0), lanes[t.rows-1].reg-t.tmp(0)+1)
}
