package dist

import (
	"errors"
	"fmt"
	"net"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Pipe makes the connections of so many processes that train together, one of each, the leader's
// first. They have no names: who has none of them reaches none of the others.
func Pipe(ranks int) (all []*Links, err error) {
	mem, err := memory()
	if err != nil {
		return nil, err
	}
	all = make([]*Links, ranks)
	defer func() {
		if err != nil {
			for _, l := range all {
				l.Close()
			}
		}
	}()
	for r := range all {
		all[r] = &Links{Rank: r, Ranks: ranks, control: make([]*os.File, ranks)}
		fd, err := unix.FcntlInt(mem.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, errors.Join(err, mem.Close())
		}
		all[r].memory = os.NewFile(uintptr(fd), "memory")
	}
	if err := mem.Close(); err != nil {
		return nil, err
	}
	for r := range all {
		right := all[(r+1)%ranks]
		if all[r].out, right.in, err = pair(); err != nil {
			return nil, err
		}
		if r == 0 {
			continue
		}
		if all[0].control[r], all[r].control[0], err = pair(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// memory makes memory without a name, which is gone with the last process that has it.
func memory() (*os.File, error) {
	fd, err := unix.MemfdCreate("weir-train", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memory that processes share: %w", err)
	}
	return os.NewFile(uintptr(fd), "memory"), nil
}

// pair makes two connected sockets.
func pair() (a, b *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("sockets between processes: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket"), nil
}

// Inherit takes the connections that a process was started with ([Links.Files]).
func Inherit(rank, ranks int) (*Links, error) {
	if rank < 1 || rank >= ranks {
		return nil, fmt.Errorf("rank %d of %d processes: want one from 1 to before their number",
			rank, ranks)
	}
	l := &Links{Rank: rank, Ranks: ranks, control: make([]*os.File, ranks)}
	for i, to := range []**os.File{&l.control[0], &l.in, &l.out, &l.memory} {
		const first = 3
		unix.CloseOnExec(first + i)
		var s unix.Stat_t
		if err := unix.Fstat(first+i, &s); err != nil {
			return nil, fmt.Errorf("rank %d has no connection %d: it is for weir to start: %w",
				rank, i, err)
		}
		if socket := s.Mode&unix.S_IFMT == unix.S_IFSOCK; socket != (to != &l.memory) {
			return nil, fmt.Errorf("rank %d: connection %d is none: it is for weir to start", rank,
				i)
		}
		*to = os.NewFile(uintptr(first+i), "inherited")
	}
	return l, nil
}

// connection makes a connection of a socket, which it closes.
func connection(f *os.File) (net.Conn, error) {
	c, err := net.FileConn(f)
	return c, errors.Join(err, f.Close())
}

// mapped maps memory that processes share.
func mapped(f *os.File, size int64) ([]byte, error) {
	p, err := unix.MmapPtr(int(f.Fd()), 0, nil, uintptr(size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("%d bytes of memory that processes share: %w", size, err)
	}
	mem := unsafe.Slice((*byte)(p), size)
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // where the system gives such memory any
	return mem, nil
}

func unmap(mem []byte) {
	// which the kernel refuses only for what was never mapped
	_ = unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(mem)), uintptr(len(mem)))
}
