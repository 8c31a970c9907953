//go:build unix

package store

import "golang.org/x/sys/unix"

// Free is how many bytes a process without privileges may still write where a folder is.
func Free(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
