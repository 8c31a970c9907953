package main

import (
	"context"
	"os"

	"github.com/weirgpu/weir/internal/fault"
)

// isRegular reports whether there is a regular file at a path, or nothing yet.
func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Mode().IsRegular()
}

// writeOut calls write, which writes what a user has named path: a file to its end, also after a
// signal, which ends the waiting for whoever reads a pipe.
func writeOut(ctx context.Context, path string, write func() error) error {
	if isRegular(path) {
		return write()
	}
	_, err := fault.Await(ctx, func() (struct{}, error) { return struct{}{}, write() })
	return err
}
