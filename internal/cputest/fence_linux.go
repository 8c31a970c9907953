package cputest

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Fenced returns n zeros that begin where an inaccessible page ends or, unless atStart, end where
// one begins: a read beyond a slice shows only where there is no memory. They live as long as t.
func Fenced(t *testing.T, n int, atStart bool) []float32 {
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
