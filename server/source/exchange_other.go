//go:build !linux

package source

import "errors"

// exchange refuses: there is no such step that works on each file system.
func exchange(_, _ string) error { return errors.ErrUnsupported }
