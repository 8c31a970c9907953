package main

import "github.com/weirgpu/weir/internal/asm"

// dispatch writes the function that picks a tile.
func (v form) dispatch(s *asm.File) {
	if v.set.Reg == asm.VectorNEON.Reg {
		v.dispatchNEON(s)
		return
	}
	s.Declare("\n// tile%s computes t with the kernel of its rows and columns; tileGo defines "+
		"it.\nfunc tile%s(t *tile) {\n", v.set.Name, v.set.Name)
	if v.narrowSums() > 0 {
		s.Declare("\tif t.narrow {\n\t\ttile%sNarrow(t)\n\t\treturn\n\t}\n", v.set.Name)
	}
	if v.lies() {
		s.Declare("\tif t.rowA > 0 {\n\t\ttile%sRows(t)\n\t\treturn\n\t}\n", v.set.Name)
	}
	if v.rests() > 0 {
		s.Declare("\tif !t.whole && t.rows <= %d {\n\t\ttile%sRest(t)\n\t\treturn\n\t}\n",
			v.rests(), v.set.Name)
	}
	s.Declare("\tif t.cols > %d%s {\n", v.set.Lanes, v.unless())
	for nv := 2; nv >= 1; nv-- {
		if nv == 1 && v.set.Name == avx512.set.Name {
			s.Declare("\tif t.cols <= 16 && t.aheadStep != 0 {\n\t\tswitch t.rows {\n")
			for r := aheadRows; r <= v.mr; r++ {
				s.Declare("\t\tcase %d:\n\t\t\ttile%s_%dx%dahead(t)\n\t\t\treturn\n", r,
					v.set.Name, r, v.set.Lanes)
			}
			s.Declare("\t\t}\n\t}\n")
		}
		s.Declare("\t\tswitch t.rows {\n")
		for r := 1; r <= v.mr; r++ {
			s.Declare("\t\tcase %d:\n\t\t\ttile%s_%dx%d(t)\n", r, v.set.Name, r, nv*v.set.Lanes)
		}
		s.Declare("\t\t}\n")
		if nv == 2 {
			s.Declare("\t\treturn\n\t}\n")
		}
	}
	s.Declare("}\n")
	v.dispatchRest(s)
	v.dispatchNarrow(s)
}

// dispatchRest writes the functions that pick a tile of the last rows, and one of rows that lie as
// they are.
func (v form) dispatchRest(s *asm.File) {
	v.dispatchTo(s, v.rests(), "rest", "Rest", "for the last rows of a product")
	if v.lies() {
		v.dispatchTo(s, v.mr, "rows", "Rows", "for rows of A where they lie")
	}
}

// dispatchTo writes the function that picks a tile of up to so many rows of those with a suffix.
func (v form) dispatchTo(s *asm.File, rows int, suffix, name, what string) {
	if rows == 0 {
		return
	}
	s.Declare("\n// tile%[1]s%[2]s is tile%[1]s %[3]s.\nfunc tile%[1]s%[2]s(t *tile) {\n",
		v.set.Name, name, what)
	for nv := 2; nv >= 1; nv-- {
		if nv == 2 {
			s.Declare("\tif t.cols > %d {\n", v.set.Lanes)
		}
		s.Declare("\t\tswitch t.rows {\n")
		for r := 1; r <= rows; r++ {
			s.Declare("\t\tcase %d:\n\t\t\ttile%s_%dx%d%s(t)\n", r, v.set.Name, r,
				nv*v.set.Lanes, suffix)
		}
		s.Declare("\t\t}\n")
		if nv == 2 {
			s.Declare("\t\treturn\n\t}\n")
		}
	}
	s.Declare("}\n")
}

// dispatchNarrow writes the function that picks a tile of a narrow product.
func (v form) dispatchNarrow(s *asm.File) {
	n := v.narrowSums()
	if n == 0 {
		return
	}
	s.Declare("\n// tile%sNarrow is tile%s for products of one register of columns.\n"+
		"func tile%sNarrow(t *tile) {\n\tswitch t.rows {\n", v.set.Name, v.set.Name, v.set.Name)
	for r := 1; r <= v.mr; r++ {
		suffix := ""
		if v.sums(r) != n {
			suffix = "narrow"
		}
		s.Declare("\tcase %d:\n\t\ttile%s_%dx%d%s(t)\n", r, v.set.Name, r, v.set.Lanes, suffix)
	}
	s.Declare("\t}\n}\n")
}

// unless is when two registers of columns are computed one after the other.
func (v form) unless() string {
	if v.set.Name == avx512.set.Name {
		return " && !t.inStrips()"
	}
	return ""
}

// neonWhole is what keys of kernels with partial sums begin after, and neonDense those of kernels
// for an A whose steps lie side by side.
const (
	neonWhole = 2 * 7
	neonDense = 2 * neonWhole
)

// dispatchNEON writes the function that picks a tile of arm64.
func (v form) dispatchNEON(s *asm.File) {
	name := map[string]string{"tile": "kernel", "matrix": "matrix"}[v.prefix()] + v.set.Name
	_, sums := v.way.(direct)
	if v.way.most() == 2 {
		s.Declare("\n// %s runs the kernel of t's rows, of 8 columns.\nfunc %[1]s(t *tile) {\n"+
			"\tswitch t.rows {\n", name)
	} else {
		s.Declare("\n// %s runs the kernel of t's rows, of 16 columns where it is wide and else "+
			"of 8.\nfunc %[1]s(t *tile, wide bool) {\n\tkey := 2 * t.rows\n"+
			"\tif wide {\n\t\tkey++\n\t}\n", name)
		if sums {
			s.Declare("\tif t.whole && t.rows <= %d {\n\t\tkey += %d\n\t}", neonFew,
				neonWhole)
			if v.of == floats {
				s.Declare(" else if t.lda == t.rows {\n\t\tkey += %d\n\t}", neonDense)
			}
			s.Declare("\n")
		}
		s.Declare("\tswitch key {\n")
	}
	for _, t := range v.all() {
		t.form, t.Code = v, asm.Code{Vector: v.set}
		s.Declare("\tcase %d:\n\t\t%s(t)\n", t.key(), t.symbol())
	}
	s.Declare("\t}\n}\n")
}

// key is the number by which a kernel of arm64 is picked.
func (t *tile) key() int {
	if t.way.most() == 2 {
		return t.rows
	}
	key := 2*t.rows + t.nv/4
	switch {
	case t.whole:
		key += neonWhole
	case t.dense:
		key += neonDense
	}
	return key
}
