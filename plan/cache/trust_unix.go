//go:build unix

package cache

import (
	"errors"
	"io/fs"
	"syscall"
)

// ownerOf returns the user to whom a file belongs.
func ownerOf(info fs.FileInfo) (int, error) {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid), nil
	}
	return 0, errors.ErrUnsupported
}
