package shm

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// folder is where Linux has shared memory.
const folder = "/dev/shm/"

// all is the permission of everybody to read and write.
const all = 0o006

// files is how many files the process may open.
func files() int {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil || l.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(l.Cur)
}

// open opens shared memory that holds what is to be registered.
func open(name string, in Info) (*os.File, fileID, error) {
	var none fileID
	// what is no regular file may wait for another process to open it
	fd, err := unix.Open(folder+name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, none, fmt.Errorf("%w: Unable to open shared memory region: %.40q: %w",
			ErrInvalid, in.Key, err)
	}
	f := os.NewFile(uintptr(fd), folder+name)
	var s unix.Stat_t
	if err = unix.Fstat(fd, &s); err == nil {
		err = may(&s, in)
	}
	if err != nil {
		_ = f.Close()
		return nil, none, err
	}
	return f, fileID{s.Dev, s.Ino}, nil
}

// may holds that memory is what a client may use, and large enough.
func may(s *unix.Stat_t, in Info) error {
	switch {
	case s.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("%w: key %.40q is no shared memory", ErrInvalid, in.Key)
	case (in.Foreign || int(s.Uid) != os.Geteuid()) && s.Mode&all != all:
		return fmt.Errorf("%w: key %.40q belongs to another user of this machine than the server "+
			"runs as, or you are one: let all users read and write it", ErrInvalid, in.Key)
	case in.Offset+in.Size > s.Size:
		return fmt.Errorf("%w: key %.40q has %d bytes, and %d from %d on are asked for",
			ErrInvalid, in.Key, s.Size, in.Size, in.Offset)
	}
	return nil
}
