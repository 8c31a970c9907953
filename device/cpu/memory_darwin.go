package cpu

import "golang.org/x/sys/unix"

// mapMemory maps n > 0 zeroed bytes on pages of their own, outside the Go heap: in it, the
// collector would have a program hold as much again before it gives any back.
func mapMemory(n int) (*mapping, error) {
	const private = unix.MAP_PRIVATE | unix.MAP_ANON
	pages, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, private)
	if err != nil {
		return nil, err
	}
	return &mapping{bytes: pages, mapped: pages}, nil
}

// unmap gives the memory back to the system.
func (m *mapping) unmap() {
	if m.mapped != nil {
		// The system can refuse only a range that was never mapped.
		_ = unix.Munmap(m.mapped)
	}
	m.bytes, m.mapped = nil, nil
}
