//go:build !amd64

package cpuinfo

import "errors"

// TilesKept reports false.
func TilesKept() bool { return false }

// PermitTiles fails: no other architecture has tiles.
func PermitTiles() error { return errors.New("the processor has no tiles") }
