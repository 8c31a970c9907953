package cpu

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgpu/weir/device"
)

// Options set limits for a [Device]. The zero value sets none of its own.
type Options struct {
	// MemoryBytes caps the bytes that buffers of the device may hold together; 0 stands for what
	// the machine and the process's control groups allow.
	MemoryBytes int64
}

// Device is the processors and the main memory that this process may use. It implements
// [device.Device] and is safe for concurrent use.
type Device struct {
	info   device.Info
	ledger *device.Ledger
	spares spares
	dear   atomic.Pointer[time.Time] // when a huge page was last found dear, nil for never
}

var _ device.Device = (*Device)(nil)

// Open opens the CPU device with the given ID; "cpu" and "cpu:0" name the only one there is. The
// error wraps [device.ErrUnknownDevice], or tells that opts.MemoryBytes is negative. Two devices
// opened count their memory apart.
func Open(id string, opts Options) (*Device, error) {
	if id != "cpu" && id != "cpu:0" {
		return nil, fmt.Errorf("device %q: %w: this machine has cpu:0", id, device.ErrUnknownDevice)
	}
	if opts.MemoryBytes < 0 {
		return nil, fmt.Errorf("device cpu:0: memory limit of %d bytes: %w", opts.MemoryBytes,
			device.ErrInvalidSize)
	}
	info := Discover()
	if opts.MemoryBytes > 0 && (info.MemoryBytes == 0 || opts.MemoryBytes < info.MemoryBytes) {
		info.MemoryBytes = opts.MemoryBytes
	}
	ledger := device.NewLedger("cpu:0", info.MemoryBytes)
	return &Device{info: info, ledger: ledger, spares: spares{ledger: ledger}}, nil
}

// Info describes the device. MemoryBytes is the smallest of the machine's memory, the control
// groups' limits and the limit given to [Open].
func (d *Device) Info() device.Info { return d.info }

// Held implements [device.Device].
func (d *Device) Held() int64 { return d.ledger.Held() }

// Alloc returns a zeroed buffer on whole pages of its own; from 2 MiB on it starts on a huge page
// where the system has them. Pages cost memory when they are first written, so a process may still
// be killed for memory that Alloc granted if other processes have taken it by then. See
// [device.Device].
func (d *Device) Alloc(bytes int64) (device.Buffer, error) {
	if err := d.ledger.Reserve(bytes); err != nil {
		return nil, err
	}
	b := &buffer{device: d, size: bytes}
	if bytes == 0 {
		b.mem.Store(&mapping{})
		return b, nil
	}
	m, err := mapMemory(int(bytes))
	if err != nil {
		d.ledger.Release(bytes)
		return nil, fmt.Errorf(
			"device %s: wants %d bytes, holds %d, has %d: %w: the system refuses: %v", d.info.ID,
			bytes, d.ledger.Held(), d.info.MemoryBytes, device.ErrOutOfMemory, err)
	}
	if t := d.dear.Load(); t != nil && time.Since(*t) < dearFor {
		m.leaveHuge()
	}
	b.mem.Store(m)
	d.spares.grown()
	return b, nil
}

// Wrap returns a buffer of memory that the caller owns, such as a part of a mapped file: it is
// counted as held until Free, which leaves the memory itself alone. Its Populate makes the memory
// present to be read. mem is aligned to
// [device.Alignment] and outlives the buffer. The errors are those of Alloc.
func (d *Device) Wrap(mem []byte) (device.Buffer, error) {
	if err := d.ledger.Reserve(int64(len(mem))); err != nil {
		return nil, err
	}
	b := &buffer{device: d, size: int64(len(mem))}
	b.mem.Store(&mapping{bytes: mem})
	return b, nil
}

// Close gives the device back. See [device.Device].
func (d *Device) Close() error { return d.ledger.Close() }

// buffer is memory mapped for one Alloc, or the caller's.
type buffer struct {
	device *Device
	size   int64
	mem    atomic.Pointer[mapping] // nil once freed

	mu   sync.Mutex       // guards what follows, and that the memory is there
	away device.Stretches // that were given back
}

var _ interface {
	device.Elastic
	device.HostVisible
	device.Populator
} = (*buffer)(nil)

func (b *buffer) Len() int64 { return b.size }

// Bytes implements [device.HostVisible].
func (b *buffer) Bytes() []byte {
	if m := b.mem.Load(); m != nil {
		return m.bytes
	}
	return nil
}

// Address implements [device.Buffer].
func (b *buffer) Address() uint64 { return address(b.Bytes()) }

// CopyIn implements [device.Buffer].
func (b *buffer) CopyIn(off int64, src []byte) error {
	mem, err := b.device.ledger.Stretch(b.Bytes(), "to", off, len(src))
	copy(mem, src)
	return err
}

// CopyOut implements [device.Buffer].
func (b *buffer) CopyOut(dst []byte, off int64) error {
	mem, err := b.device.ledger.Stretch(b.Bytes(), "from", off, len(dst))
	copy(dst, mem)
	return err
}

// Populate implements [device.Populator].
func (b *buffer) Populate(from, to int64) {
	m := b.mem.Load()
	if m == nil || from < 0 || from >= to || to > b.size {
		return
	}
	if m.populate(int(from), int(to)) {
		b.device.foundDear()
	}
}

// foundDear notes that a huge page was dear just now.
func (d *Device) foundDear() {
	now := time.Now()
	d.dear.Store(&now)
}

// Enlarge implements [device.Populator]. It does nothing while stretches are given back, of which
// huge pages would bring bytes back.
func (b *buffer) Enlarge(now bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m := b.mem.Load(); m != nil && b.away.Len() == 0 {
		m.enlarge(now)
	}
}

// Decommit implements [device.Elastic].
func (b *buffer) Decommit(from, to int64) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.mem.Load()
	if m == nil {
		return 0
	}
	from, to = max(0, from), min(to, b.size)
	n, first, last := b.away.Add(from, to)
	if n > 0 {
		if last == b.size {
			last = math.MaxInt64
		}
		b.device.spares.give(m, from, to, first, last)
		b.device.ledger.Release(n)
	}
	return n
}

// Commit implements [device.Elastic].
func (b *buffer) Commit(from, to int64) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	from, to = max(0, from), min(to, b.size)
	m := b.mem.Load()
	if m == nil {
		return 0, fmt.Errorf("device %s: bytes %d to %d of a buffer that has been freed: %w",
			b.device.info.ID, from, to, device.ErrBounds)
	}
	n := max(0, to-from) - b.away.Missing(from, to)
	if err := b.device.ledger.Reserve(n); err != nil {
		return 0, err
	}
	if n > 0 {
		end := to
		if to == b.size {
			end = math.MaxInt64
		}
		b.device.spares.take(m, from, end, func(from, to int64) bool {
			return b.away.Missing(from, min(to, b.size)) == 0
		})
	}
	b.away.Remove(from, to)
	return n, nil
}

// Free implements [device.Buffer].
func (b *buffer) Free() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m := b.mem.Swap(nil); m != nil {
		b.device.spares.forget(m)
		m.unmap()
		b.device.ledger.Release(b.size - b.away.Len())
	}
}
