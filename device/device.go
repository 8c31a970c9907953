package device

import "errors"

// Errors that every device wraps with the numbers of the case; test for them with [errors.Is].
var (
	// ErrOutOfMemory says that the device cannot grant the bytes asked for: they exceed a limit set
	// on the device, or the system has none left.
	ErrOutOfMemory = errors.New("out of device memory")
	// ErrInvalidSize: a negative number of bytes, or more than can be addressed.
	ErrInvalidSize = errors.New("invalid buffer size")
	// ErrBounds: a copy that leaves its buffer, or one from or to a buffer that has been freed.
	ErrBounds = errors.New("outside of the buffer")
	// ErrUnknownDevice: no device of that name on this machine.
	ErrUnknownDevice = errors.New("unknown device")
	// ErrClosed: the device has been closed.
	ErrClosed = errors.New("device closed")
	// ErrInUse: the device cannot be closed while buffers of it are held.
	ErrInUse = errors.New("device in use")
)

// Alignment is the least alignment in bytes of every [Buffer]: one cache line, which is also one
// vector of the widest instruction set in use.
const Alignment = 64

// Device is something that holds memory and computes. Two Devices can be compared, and are equal
// when they are the same open device, as pointers are: what is on the one is on the other.
type Device interface {
	// Info describes the device. It does not change while the device is open; its slices are shared
	// and must not be written to.
	Info() Info

	// Alloc returns a zeroed buffer of exactly bytes bytes, outside the Go heap, aligned to at
	// least [Alignment]. The caller owns it and must Free it: no collector will. Zero bytes are
	// allowed. The error wraps [ErrOutOfMemory], [ErrInvalidSize] or [ErrClosed] and names the
	// device and the numbers.
	Alloc(bytes int64) (Buffer, error)

	// Held returns the sum of Len over all buffers allocated and not yet freed, less what is given
	// back of those that are [Elastic].
	Held() int64

	// Close gives the device back. While buffers are held it does nothing and returns an error that
	// wraps [ErrInUse]. Closing twice is allowed.
	Close() error
}

// Wrapper is implemented by devices that compute on the host's memory where it is.
type Wrapper interface {
	// Wrap makes a buffer of memory that the caller owns, such as a part of a mapped file; the
	// memory may be read-only. The buffer counts as held until Free, which leaves the memory itself
	// alone. The caller aligns mem to [Alignment] and keeps it until Free. The errors are those of
	// [Device] Alloc.
	Wrap(mem []byte) (Buffer, error)
}

// Buffer is memory on a device, owned by whoever allocated it. The owner may lend it to others but
// must know when they are done: a read or write after Free is a fault, not an error.
type Buffer interface {
	// Len returns the size in bytes asked for at Alloc.
	Len() int64

	// Address returns where the memory begins in the address space of the device, aligned to at
	// least [Alignment]. The device's own kernels can use the address; whether anybody else can,
	// the documentation of the device says. It does not change until Free.
	Address() uint64

	// CopyIn copies host bytes to the buffer from byte off on, and CopyOut copies bytes from off on
	// to the host. Either copies all of them, or none and returns an error of kind [ErrBounds] that
	// names the device and the numbers. They return when the copy is done, and must not be called
	// while a task may use the same bytes, nor at the same time as Free.
	CopyIn(off int64, src []byte) error
	CopyOut(dst []byte, off int64) error

	// Free gives the memory back to the system at once. A second call does nothing.
	Free()
}

// HostVisible is implemented by buffers whose memory the host can address.
type HostVisible interface {
	// Bytes returns the memory itself, with length and capacity Len, or nil if it has been freed.
	// The slice must not be used after Free, nor must anything made from it.
	Bytes() []byte
}

// HostView returns the bytes of a buffer that is [HostVisible], nil for any other.
func HostView(b Buffer) []byte {
	if v, ok := b.(HostVisible); ok {
		return v.Bytes()
	}
	return nil
}

// Populator is implemented by buffers whose memory takes time when it is first written. Its methods
// change no byte, and may be called by any number of goroutines until Free.
type Populator interface {
	// Populate makes the bytes from one offset to before another present before they are written,
	// or, of memory of the caller's ([Wrapper]), read. It takes the kind of pages that the system
	// has soonest.
	Populate(from, to int64)
	// Enlarge moves memory that Populate left on small pages, which were there sooner, to huge
	// pages, which are faster to use. Without now the system does so as it finds the time; with now
	// it is done on return, which may take seconds. Enlarge is called when all memory that is
	// needed soon is present.
	Enlarge(now bool)
}
