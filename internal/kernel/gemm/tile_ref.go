package gemm

// tileGo defines a tile, and computes it where there is no assembly: two rows by four columns at a
// time, which is what fits into the registers that the compiler uses.
func tileGo(t *tile) {
	for i := 0; i < t.rows; i += 2 {
		for j := 0; j < t.cols; j += 4 {
			var s [2][4]float32
			if i+2 <= t.rows && j+4 <= t.cols {
				s = t.dot2x4(i, j)
			} else {
				t.dotEdge(&s, i, j)
			}
			for di := range min(2, t.rows-i) {
				for dj := range min(4, t.cols-j) {
					t.finish(i+di, j+dj, s[di][dj])
				}
			}
		}
	}
}

func (t *tile) dot2x4(i, j int) [2][4]float32 {
	var s00, s01, s02, s03, s10, s11, s12, s13 float32
	for k := range t.k {
		b := t.b[k*t.ldb+j:][:4:4]
		a0, a1 := t.a[k*t.lda+i], t.a[k*t.lda+i+1]
		s00 += a0 * b[0]
		s01 += a0 * b[1]
		s02 += a0 * b[2]
		s03 += a0 * b[3]
		s10 += a1 * b[0]
		s11 += a1 * b[1]
		s12 += a1 * b[2]
		s13 += a1 * b[3]
	}
	return [2][4]float32{{s00, s01, s02, s03}, {s10, s11, s12, s13}}
}

func (t *tile) dotEdge(s *[2][4]float32, i, j int) {
	for k := range t.k {
		for di := range min(2, t.rows-i) {
			for dj := range min(4, t.cols-j) {
				s[di][dj] += t.a[k*t.lda+i+di] * t.b[k*t.ldb+j+dj]
			}
		}
	}
}

// finish applies the epilogue to element (i, j) and stores it.
func (t *tile) finish(i, j int, x float32) {
	at := i*t.ldc + j
	if t.flags&flagAccumulate != 0 {
		x += t.c[at]
	}
	if t.flags&flagScale != 0 {
		x *= t.alpha
	}
	if t.flags&flagBiasRow != 0 {
		x += t.bias[i]
	}
	if t.flags&flagBiasCol != 0 {
		x += t.bias[j]
	}
	if t.flags&flagResidual != 0 {
		x += t.beta * t.res[i*t.ldr+j]
	}
	if t.flags&flagLo != 0 && x < t.lo {
		x = t.lo
	}
	if t.flags&flagHi != 0 && x > t.hi {
		x = t.hi
	}
	t.c[at] = x
}

// clamp limits x to [lo, hi] and lets a NaN through.
func clamp(x, lo, hi float32) float32 {
	if x < lo {
		x = lo
	}
	if x > hi {
		x = hi
	}
	return x
}
