//go:build unix

package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Take takes a file, which is made where there is none, until what it returns is closed: alone or,
// if it is to be shared, beside others that share it. It does not wait: the error is [ErrTaken], or
// that of the file system. Who takes a file must be allowed to write it. A symbolic link is none:
// who could put one there would choose what is made, and taken.
func Take(path string, shared bool) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	if err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrTaken
		}
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
