package device

import "errors"

// Errors that every device wraps with the numbers of the case; test for them with [errors.Is].
var (
	// ErrOutOfMemory: the bytes asked for are not to be had, because of a limit set on the device
	// or because the system has none left.
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

// Device is something that holds memory and computes.
type Device interface {
	// Info describes the device. It does not change while the device is open; its slices are shared
	// and must not be written to.
	Info() Info

	// Alloc returns a zeroed buffer of exactly bytes bytes, outside the Go heap, aligned to at
	// least [Alignment]. The caller owns it and must Free it: no collector will. Zero bytes are
	// allowed. The error wraps [ErrOutOfMemory], [ErrInvalidSize] or [ErrClosed] and names the
	// device and the numbers.
	Alloc(bytes int64) (Buffer, error)

	// Held returns the sum of Len over all buffers allocated and not yet freed.
	Held() int64

	// Close gives the device back. While buffers are held it does nothing and returns an error that
	// wraps [ErrInUse]. Closing twice is allowed.
	Close() error
}

// Wrapper is implemented by devices that compute on the host's memory where it is.
type Wrapper interface {
	// Wrap returns a buffer of memory that the caller owns, such as a part of a mapped file, which
	// may be read-only. It is counted as held until Free, which leaves the memory itself alone. mem
	// is aligned to [Alignment] and outlives the buffer. The errors are those of [Device] Alloc.
	Wrap(mem []byte) (Buffer, error)
}

// Buffer is memory on a device, owned by whoever allocated it. The owner may lend it to others but
// must know when they are done: a read or write after Free is a fault, not an error.
type Buffer interface {
	// Len returns the size in bytes asked for at Alloc.
	Len() int64

	// Address returns where the memory begins in the address space of the device, aligned to at
	// least [Alignment]; what it is worth to anybody but the device's own kernels, the device says.
	// It does not change until Free.
	Address() uint64

	// CopyIn copies host bytes to the buffer from byte off on, and CopyOut bytes from off on to the
	// host: all of them, or none with an error of kind [ErrBounds] that names the device and the
	// numbers. They return when the copy is done, and must not be called while a task may use the
	// same bytes, nor at the same time as Free.
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
	// Populate makes the memory from one byte to before another present, sooner and in the way that
	// takes least time now.
	Populate(from, to int64)
	// Enlarge undoes what Populate did for the moment at the expense of later: memory on small
	// pages goes to huge ones, as the system finds the time or, which may take seconds, now. It is
	// called when all that is needed soon is present.
	Enlarge(now bool)
}
