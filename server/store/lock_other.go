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

func alone(dir string) (*os.File, error)   { return lock(dir) }
func reading(dir string) (*os.File, error) { return nil, nil }

// syncFolder does nothing: folders are not synced here.
var syncFolder = func(string) error { return nil }
