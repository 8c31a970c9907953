//go:build !unix

package filelock

import (
	"fmt"
	"os"
	"runtime"
)

// Take refuses: nothing here keeps a second process away.
func Take(path string, _ bool) (*os.File, error) {
	return nil, fmt.Errorf("%s: files are not locked on %s", path, runtime.GOOS)
}
