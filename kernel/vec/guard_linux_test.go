package vec

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fenced returns n elements that end where an inaccessible page begins, or begin where one ends.
func fenced(t *testing.T, n int, atStart bool) []float32 {
	t.Helper()
	page := unix.Getpagesize()
	size := (n*4 + page - 1) / page * page
	all, err := unix.Mmap(-1, 0, size+2*page, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(all); err != nil {
			t.Error(err)
		}
	})
	for _, fence := range [][]byte{all[:page], all[page+size:]} {
		if err := unix.Mprotect(fence, unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	start := page
	if !atStart {
		start += size - 4*n
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&all[start])), n)
}

// A read beyond a slice shows only where there is no memory.
func TestNothingOutsideIsTouched(t *testing.T) {
	const most = 150
	for _, atStart := range []bool{true, false} {
		buffers := [4][]float32{}
		for i := range buffers {
			buffers[i] = fenced(t, most, atStart)
		}
		cut := func(i, n int) []float32 {
			if atStart {
				return buffers[i][:n]
			}
			return buffers[i][most-n:]
		}
		atEachLevel(t, func(t *testing.T) {
			for n := 1; n <= most; n++ {
				in := [3][]float32{cut(1, n), cut(2, n), cut(3, n)}
				for _, e := range everyFunction() {
					e.fast(cut(0, n), in)
				}
				for rows := 1; rows <= n; rows += 5 {
					cols := n / rows
					Transpose(cut(0, rows*cols), cut(1, rows*cols), rows, cols, rows, cols)
				}
			}
		})
	}
}
