//go:build !linux

package wire

import (
	"fmt"
	"os"
	"time"
)

// NewPage fails with [ErrUnsupported].
func NewPage() (*Page, error) { return nil, fmt.Errorf("page: %w", ErrUnsupported) }

// MapPage fails with [ErrUnsupported] and closes the file.
func MapPage(f *os.File) (*Page, error) {
	_ = f.Close()
	return nil, fmt.Errorf("page: %w", ErrUnsupported)
}

// ReclaimPage fails with [ErrUnsupported] and closes the file.
func ReclaimPage(f *os.File) (*Page, error) { return MapPage(f) }

func unmap([]byte) error { return ErrUnsupported }

// SamePage reports whether two descriptors are of the same memory.
func SamePage(a, b *os.File) bool { return false }

var origin = time.Now()

// Monotonic returns a clock of this process only.
func Monotonic() time.Duration { return time.Since(origin) }

// WakeGate does nothing here.
func (p *Page) WakeGate() {}

// WakeMove does nothing here.
func (p *Page) WakeMove() {}

// WaitDrained fails with [ErrUnsupported].
func (s *Slot) WaitDrained(uint32, time.Duration) error {
	return fmt.Errorf("page: %w", ErrUnsupported)
}

// WaitGate fails with [ErrUnsupported].
func (p *Page) WaitGate(uint32, time.Duration) error {
	return fmt.Errorf("page: %w", ErrUnsupported)
}
