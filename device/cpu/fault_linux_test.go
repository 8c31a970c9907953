package cpu

import (
	"errors"
	"testing"

	"github.com/weirgpu/weir/device/compute"
	"golang.org/x/sys/unix"
)

// TestBadAddress reads memory that may not be read, which ends a Go program unless the goroutine
// has asked for a panic.
func TestBadAddress(t *testing.T) {
	wall, err := unix.Mmap(-1, 0, 4096, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = unix.Munmap(wall) }()
	p := newTestPool(t, PoolOptions{Threads: 2})
	for worker := range 2 {
		var sink byte
		err := p.Run(t.Context(), nil, 2,
			&burst{barrier{n: 2}, worker, func() { sink = wall[100] }})
		if !errors.Is(err, compute.ErrPanic) {
			t.Errorf("worker %d: error %v, read %d", worker, err, sink)
		}
	}
}
