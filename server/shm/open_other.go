//go:build !linux

package shm

import (
	"fmt"
	"os"
)

// files is how many files the process may open, which does not matter without any.
func files() int { return 0 }

// open says that this system's shared memory cannot be opened as a file.
func open(_ string, _ Info) (*os.File, fileID, error) {
	return nil, fileID{}, fmt.Errorf("%w on this system", ErrUnsupported)
}
