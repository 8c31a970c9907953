//go:build unix && !linux

package cache

import (
	"errors"
	"os"
)

// takeLease has no leases here.
func takeLease(*os.File) error { return errors.ErrUnsupported }

func watch(*mapping) {}

func unwatch(*mapping) {}

func adviseHuge([]byte) {}
