package vec

import (
	"bytes"
	"testing"
)

func TestBytes(t *testing.T) {
	for n := range 2100 {
		x, y := make([]byte, n), make([]byte, n+1)
		want := int32(0)
		for i := range x {
			x[i] = byte(255 - i%7*n)
			want += int32(x[i])
		}
		if got := SumBytes(x); got != want {
			t.Fatalf("sum of %d bytes is %d, want %d", n, got, want)
		}
		y[n] = 77
		FlipBytes(y, x)
		for i := range x {
			if int(int8(y[i])) != int(x[i])-128 {
				t.Fatalf("%d became %d", x[i], int8(y[i]))
			}
		}
		if y[n] != 77 {
			t.Fatal("wrote beyond the end")
		}
	}
}

func TestInterleave(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		for n := range 70 {
			checkInterleave(t, n, n+5)
		}
	})
}

func checkInterleave(t *testing.T, n, stride int) {
	t.Helper()
	x := make([]byte, 3*stride+n)
	for i := range x {
		x[i] = byte(i*37 + 11)
	}
	got, want := make([]uint32, n+1), make([]uint32, n)
	got[n] = 99
	for _, flip := range []bool{false, true} {
		mask := uint32(0)
		if flip {
			mask = 0x80808080
		}
		interleaveRef(want, x, stride, mask)
		Interleave(got[:n], x, stride, flip)
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("%d words: word %d is %#x, want %#x", n, i, got[i], want[i])
			}
		}
		if got[n] != 99 {
			t.Fatal("wrote beyond the end")
		}
	}
}

func TestCopyRows(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		for n := range 300 {
			cols, rows := 1+n*7%150, 1+n%5
			if n == 200 {
				cols, rows = 200, 500 // more than one call
			}
			ldd, lds := cols+n%3, cols+n%4
			src, got, want := make([]byte, rows*lds), make([]byte, rows*ldd), make([]byte, rows*ldd)
			for i := range src {
				src[i] = byte(i * 31)
			}
			mask := uint32(n%2) * 0x80808080
			CopyRows(got, ldd, src, lds, cols, rows, n%2 == 1)
			copyRowsRef(want, ldd, src, lds, cols, rows, mask)
			if !bytes.Equal(got, want) {
				t.Fatalf("%d rows of %d: got %v, want %v", rows, cols, got, want)
			}
		}
	})
}

func TestTransposeBytes(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		for _, size := range [][2]int{{1, 1}, {3, 5}, {4, 4}, {7, 300}, {49, 17}, {8, 513},
			{64, 16}, {130, 300}, {70, 5}} {
			rows, cols := size[0], size[1]
			checkTransposeBytes(t, rows, cols, rows+2+rows%4, cols+3)
		}
	})
}

func checkTransposeBytes(t *testing.T, rows, cols, ldDst, ldSrc int) {
	t.Helper()
	src, got, want := make([]byte, rows*ldSrc), make([]byte, cols*ldDst), make([]byte, cols*ldDst)
	for i := range src {
		src[i] = byte(i*31 + i/256)
	}
	for r := range rows {
		for c := range cols {
			want[c*ldDst+r] = src[r*ldSrc+c]
		}
	}
	TransposeBytes(got, src, rows, cols, ldDst, ldSrc)
	if !bytes.Equal(got, want) {
		t.Errorf("%d x %d: got %v, want %v", rows, cols, got, want)
	}
}
