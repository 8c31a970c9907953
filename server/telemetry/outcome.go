package telemetry

import (
	"context"
	"errors"
)

// outcome is how a request ended.
type outcome int

const (
	ok outcome = iota
	cancelled
	late
	internal
	outcomes
)

// names are what outcomes are called in metrics and logs.
var names = [outcomes]string{"ok", "cancelled", "late", "internal"}

func kindOf(err error) outcome {
	switch {
	case err == nil:
		return ok
	case errors.Is(err, context.Canceled):
		return cancelled
	case errors.Is(err, context.DeadlineExceeded):
		return late
	}
	return internal
}
