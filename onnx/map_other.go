//go:build !unix

package onnx

import (
	"errors"
	"os"
)

// mapRegular has no mapping on this system; the caller reads the file.
func mapRegular(*os.File, int64) (*mapping, error) { return nil, errors.ErrUnsupported }

// stampOf is not called, since nothing is mapped.
func stampOf(int) (stamp, error) { return stamp{}, errors.ErrUnsupported }

func discard([]byte) {}
