//go:build !unix

package store

import (
	"fmt"
	"os"
	"runtime"
)

// lock refuses: nothing here keeps a second process from writing.
func lock(string) (*os.File, error) {
	return nil, fmt.Errorf("a server's state cannot be kept on %s", runtime.GOOS)
}

// syncFolder does nothing: folders are not synced here.
func syncFolder(string) error { return nil }
