package vec

import "testing"

const untouched = 0xdeadbeef

func checkTranspose(t *testing.T, rows, cols, padDst, padSrc int) {
	t.Helper()
	ldDst, ldSrc := rows+padDst, cols+padSrc
	src := make([]uint32, max(0, (rows-1)*ldSrc+cols))
	for i := range src {
		src[i] = uint32(i) + 1
	}
	dst, intact := guarded(max(0, (cols-1)*ldDst+rows), 1, uint32(untouched),
		func(a, b uint32) bool {
			return a == b
		})
	Transpose(dst, src, rows, cols, ldDst, ldSrc)
	if err := intact(); err != nil {
		t.Fatalf("%d x %d: %v", rows, cols, err)
	}
	for i, v := range dst {
		want := uint32(untouched)
		if r, c := i%ldDst, i/ldDst; r < rows {
			want = src[r*ldSrc+c]
		}
		if v != want {
			t.Fatalf("%d x %d, leading dimensions %d and %d: at %d: %#x, want %#x", rows, cols,
				ldDst, ldSrc, i, v, want)
		}
	}
}

func TestTranspose(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		for rows := range 36 {
			for cols := range 36 {
				checkTranspose(t, rows, cols, (rows+cols)%3, rows%4)
			}
		}
		for _, shape := range [][2]int{{3, 1100}, {1100, 3}, {64, 197}, {197, 64}, {130, 1030}} {
			checkTranspose(t, shape[0], shape[1], 0, 0)
		}
	})
}

func TestTransposeTwiceIsTheIdentity(t *testing.T) {
	const rows, cols = 45, 83
	x, y, z := make([]float32, rows*cols), make([]float32, rows*cols), make([]float32, rows*cols)
	for i := range x {
		x[i] = float32(i)
	}
	atEachLevel(t, func(t *testing.T) {
		Transpose(y, x, rows, cols, rows, cols)
		Transpose(z, y, cols, rows, cols, rows)
		for i := range x {
			if x[i] != z[i] {
				t.Fatalf("at %d: %v, want %v", i, z[i], x[i])
			}
		}
	})
}

func TestTransposeRefusesWrongSizes(t *testing.T) {
	buffer := make([]int32, 64)
	for _, c := range []struct{ rows, cols, ldDst, ldSrc, dst, src int }{
		{-1, 4, 4, 4, 64, 64}, {4, -1, 4, 4, 64, 64}, {4, 4, 3, 4, 64, 64}, {4, 4, 4, 3, 64, 64},
		{4, 4, 4, 4, 15, 64}, {4, 4, 4, 4, 64, 15},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Transpose accepted %+v", c)
				}
			}()
			Transpose(buffer[:c.dst:c.dst], buffer[:c.src:c.src], c.rows, c.cols, c.ldDst, c.ldSrc)
		}()
	}
}

func TestGatherAndScatter(t *testing.T) {
	for _, stride := range []int{1, 2, 3, 7} {
		for n := range 20 {
			column := make([]int32, n)
			for i := range column {
				column[i] = int32(i + 1)
			}
			matrix, intact := guarded(max(0, (n-1)*stride+1), 0, int32(-5), func(a, b int32) bool {
				return a == b
			})
			Scatter(matrix, column, stride)
			for i, v := range matrix {
				if want := int32(i/stride + 1); i%stride == 0 && v != want ||
					i%stride != 0 && v != -5 {
					t.Fatalf("Scatter, n=%d, stride %d: at %d: %d", n, stride, i, v)
				}
			}
			back, backIntact := guarded(n, 0, int32(-5), func(a, b int32) bool { return a == b })
			Gather(back, matrix, stride)
			for i, v := range back {
				if v != column[i] {
					t.Fatalf("Gather, n=%d, stride %d: at %d: %d", n, stride, i, v)
				}
			}
			for _, err := range []error{intact(), backIntact()} {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
