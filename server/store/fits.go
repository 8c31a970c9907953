package store

import (
	"fmt"

	"github.com/weirgpu/weir/internal/terminal"
)

// Reserve is how many bytes of a disk what clients send leaves free, where nothing else is said.
const Reserve = 64 << 20

// Fits holds that the disk of a folder has room for so many bytes more, and for a reserve beside
// them that stays free. The error is of kind [ErrFull], or that of the file system.
func Fits(dir string, more, reserve int64) error {
	free, err := Free(dir)
	if err != nil {
		return err
	}
	if free-reserve < more {
		return fmt.Errorf("%w: %s are needed, and %s are free, of which %s stay so: make room "+
			"where %s is", ErrFull, terminal.Size(more), terminal.Size(free),
			terminal.Size(reserve), dir)
	}
	return nil
}
