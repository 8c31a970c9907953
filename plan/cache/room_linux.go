package cache

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// spare is left of a file system by whatever the cache writes: others need the disk more.
const spare = 1 << 30

// roomFor refuses what would fill the file system of a folder.
func roomFor(dir string, size int64) error {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return err
	}
	if free := int64(s.Bavail) * int64(s.Bsize); free-spare < size {
		return fmt.Errorf("%s has %d bytes free, the entry needs %d and leaves %d", dir, free, size,
			spare)
	}
	return nil
}
