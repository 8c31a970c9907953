package source

import "golang.org/x/sys/unix"

// exchange has two folders change their places in one step. The error is that of a file system that
// does not, or of a folder that is not there.
func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
