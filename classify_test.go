package weir

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/internal/op"
)

// TestOneKindEach holds of which one kind the errors of the packages below are.
func TestOneKindEach(t *testing.T) {
	all := []error{ErrInput, ErrOutput, ErrOption, ErrClosed, ErrModel, ErrUnsupported, ErrMemory,
		ErrFault}
	for _, c := range []struct{ err, kind error }{
		{fault.ErrFile, ErrModel},
		{fmt.Errorf("%w: %w", engine.ErrFault, fault.ErrFile), ErrModel},
		{fmt.Errorf("%w: %w", op.ErrInput, op.ErrPanic), ErrFault},
		{engine.ErrFault, ErrFault},
		{compute.ErrPanic, ErrFault},
		{compute.ErrPlan, ErrModel},
		{op.ErrAttr, ErrModel},
		{op.ErrInput, ErrInput},
		{op.ErrUnsupported, ErrUnsupported},
	} {
		got := classify(c.err, ErrInput)
		for _, kind := range all {
			if errors.Is(got, kind) != (kind == c.kind) {
				t.Errorf("%v: of kind %v: %v", c.err, kind, errors.Is(got, kind))
			}
		}
	}
}

// TestCauseOfOthers holds that an error which a context has not led to says nothing of it.
func TestCauseOfOthers(t *testing.T) {
	cause := errors.New("the user went away")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := withCause(ctx, ErrInput); err != ErrInput {
		t.Error(err)
	}
	if err := withCause(ctx, ctx.Err()); !errors.Is(err, cause) {
		t.Error(err)
	}
}
