package agent

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// openOwn opens a regular file that this user owns and nobody else may use, and follows no link to
// it.
func openOwn(path string) (*os.File, error) {
	// A named pipe would block without O_NONBLOCK.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(int(f.Fd()), &st); err == nil &&
		(st.Mode&unix.S_IFMT != unix.S_IFREG || st.Uid != ownUID || st.Mode&0o077 != 0) {
		err = errors.New("is not a file of this user's alone")
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// idOf returns which memory a descriptor is of; zero if that cannot be told.
func idOf(f *os.File) pageID {
	var st unix.Stat_t
	if f == nil || unix.Fstat(int(f.Fd()), &st) != nil {
		return pageID{}
	}
	return pageID{Dev: st.Dev, Ino: st.Ino}
}
