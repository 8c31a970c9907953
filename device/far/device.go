package far

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/device/cpu"
)

// Options set the limits of a [Device].
type Options struct {
	// MemoryBytes is the memory of the device; 0 stands for as much as the host has.
	MemoryBytes int64
	// Bus, when its BytesPerS is above 0, is how fast copies reach the device: each takes its time
	// at least, one after the other as they come, while the device computes; those of
	// [device.Small] do not wait for others. Copies from the device take the time of copying alone.
	// The host's memory that stands in for what buffers give back then stays with the process,
	// because the system takes longer to bring its pages again than such a bus does for their
	// bytes.
	Bus device.Bus
	// Late, when set, is called after each copy behind the bus of more than [device.Small], with
	// its bytes and by how much later it ended than the bus says: what this host is late by. It
	// must be safe for concurrent use.
	Late func(bytes int, late time.Duration)
}

// Device implements [device.Device] and [compute.Queued].
type Device struct {
	info   device.Info
	bus    bus
	ledger *device.Ledger
	host   *cpu.Device // whose memory stands in for the device's own

	mu   sync.Mutex
	next uint64    // the next address
	live []*buffer // by address
}

var _ interface {
	device.Device
	device.Bused
	compute.Queued
} = (*Device)(nil)

const (
	// base is below the first address. No process has memory there, because bits 48 to 55 are no
	// sign extension of bit 47. (A mark in the top byte would not do: arm64 ignores that byte.)
	base = 0xFA << 48
	// gap is the least distance from one buffer to the next, which nothing may touch.
	gap = 1 << 16
)

// Open opens the device; "far" and "far:0" name the only one there is. The error wraps
// [device.ErrUnknownDevice], or [device.ErrInvalidSize] for a negative limit. Two devices opened
// have nothing in common.
func Open(id string, o Options) (*Device, error) {
	if id != "far" && id != "far:0" {
		return nil, fmt.Errorf("device %q: %w: there is far:0", id, device.ErrUnknownDevice)
	}
	if o.MemoryBytes < 0 {
		return nil, fmt.Errorf("device far:0: memory limit of %d bytes: %w", o.MemoryBytes,
			device.ErrInvalidSize)
	}
	host, err := cpu.Open("cpu:0", cpu.Options{})
	if err != nil {
		return nil, fmt.Errorf("device far:0: %w", err)
	}
	info := device.Info{ID: "far:0", Kind: device.Far, Name: "plain evaluation out of sight",
		MemoryBytes: host.Info().MemoryBytes, Units: 1}
	if n := o.MemoryBytes; n > 0 && (info.MemoryBytes == 0 || n < info.MemoryBytes) {
		info.MemoryBytes = n
	}
	return &Device{info: info, ledger: device.NewLedger(info.ID, info.MemoryBytes), host: host,
		next: base + gap, bus: bus{of: o.Bus, told: o.Late}}, nil
}

// Info implements [device.Device].
func (d *Device) Info() device.Info { return d.info }

// Held implements [device.Device].
func (d *Device) Held() int64 { return d.ledger.Held() }

// Close implements [device.Device].
func (d *Device) Close() error { return d.ledger.Close() }

// Alloc implements [device.Device].
func (d *Device) Alloc(bytes int64) (device.Buffer, error) {
	if err := d.ledger.Reserve(bytes); err != nil {
		return nil, err
	}
	mem, err := d.host.Alloc(bytes)
	if err != nil {
		d.ledger.Release(bytes)
		return nil, fmt.Errorf("device %s: %w", d.info.ID, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	b := &buffer{device: d, at: d.next, size: bytes, mem: mem}
	d.next += (uint64(bytes) + 2*gap - 1) &^ (gap - 1)
	d.live = append(d.live, b)
	return b, nil
}

// memory returns the n bytes at an address as kernels of the device see them. The error is of kind
// [device.ErrBounds].
func (d *Device) memory(at uint64, n int64) ([]byte, error) {
	if n == 0 {
		return []byte{}, nil // of which no address matters
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	i, found := d.find(at)
	if !found {
		i--
	}
	if i >= 0 {
		b := d.live[i]
		off := at - b.at
		if off < uint64(b.size) && n > 0 && uint64(n) <= uint64(b.size)-off &&
			!b.away.Meets(int64(off), int64(off)+n) {
			return device.HostView(b.mem)[off : off+uint64(n) : off+uint64(n)], nil
		}
	}
	return nil, fmt.Errorf("device %s: %d bytes at address %#x: %w", d.info.ID, n, at,
		device.ErrBounds)
}

// find returns where among the buffers one with that address is or would be. d.mu is held.
func (d *Device) find(at uint64) (i int, found bool) {
	return slices.BinarySearchFunc(d.live, at, func(b *buffer, at uint64) int {
		return cmp.Compare(b.at, at)
	})
}

// buffer is memory of the device. It is deliberately no [device.HostVisible].
type buffer struct {
	device *Device
	at     uint64
	size   int64
	mem    device.Buffer
	away   device.Stretches // that were given back; device.mu is held
}

var _ device.Elastic = (*buffer)(nil)

// Len implements [device.Buffer].
func (b *buffer) Len() int64 { return b.size }

// Address implements [device.Buffer].
func (b *buffer) Address() uint64 { return b.at }

// CopyIn implements [device.Buffer].
func (b *buffer) CopyIn(off int64, src []byte) error {
	mem, err := b.stretch("to", off, len(src))
	if err != nil {
		return err
	}
	b.device.bus.copy(mem, src)
	return nil
}

// stretch is memory of the buffer for a copy, of which nothing may be given back.
func (b *buffer) stretch(way string, off int64, n int) ([]byte, error) {
	mem, err := b.device.ledger.Stretch(device.HostView(b.mem), way, off, n)
	if err != nil {
		return nil, err
	}
	b.device.mu.Lock()
	defer b.device.mu.Unlock()
	if b.away.Meets(off, off+int64(n)) {
		return nil, fmt.Errorf("device %s: copy of %d bytes %s %d of a buffer that has given some "+
			"of them back: %w", b.device.info.ID, n, way, off, device.ErrBounds)
	}
	return mem, nil
}

// CopyOut implements [device.Buffer].
func (b *buffer) CopyOut(dst []byte, off int64) error {
	mem, err := b.stretch("from", off, len(dst))
	copy(dst, mem)
	return err
}

// Free implements [device.Buffer].
func (b *buffer) Free() {
	d := b.device
	d.mu.Lock()
	defer d.mu.Unlock()
	i, found := d.find(b.at)
	if !found {
		return
	}
	d.live = slices.Delete(d.live, i, i+1)
	b.mem.Free()
	d.ledger.Release(b.size - b.away.Len())
}

// Decommit implements [device.Elastic]. What reaches for bytes that were given back fails.
func (b *buffer) Decommit(from, to int64) int64 {
	d := b.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, live := d.find(b.at); !live {
		return 0
	}
	from, to = max(0, from), min(to, b.size)
	n, _, _ := b.away.Add(from, to)
	if e, ok := b.mem.(device.Elastic); ok && d.bus.of.BytesPerS <= 0 {
		e.Decommit(from, to)
	}
	d.ledger.Release(n)
	return n
}

// Commit implements [device.Elastic].
func (b *buffer) Commit(from, to int64) (int64, error) {
	d := b.device
	d.mu.Lock()
	defer d.mu.Unlock()
	from, to = max(0, from), min(to, b.size)
	if _, live := d.find(b.at); !live {
		return 0, fmt.Errorf("device %s: bytes %d to %d of a buffer that has been freed: %w",
			d.info.ID, from, to, device.ErrBounds)
	}
	n := max(0, to-from) - b.away.Missing(from, to)
	if err := d.ledger.Reserve(n); err != nil {
		return 0, err
	}
	if e, ok := b.mem.(device.Elastic); ok {
		if _, err := e.Commit(from, to); err != nil {
			d.ledger.Release(n)
			return 0, fmt.Errorf("device %s: %w", d.info.ID, err)
		}
	}
	b.away.Remove(from, to)
	return n, nil
}
