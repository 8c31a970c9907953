package oip

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestKindOf: an error is of the kind of the fault in it, however deep, else of its sentinel's.
func TestKindOf(t *testing.T) {
	late := Faultf(Exhausted, "account %s", "ann")
	late.RetryAfter, late.Err = time.Second, errors.New("cause")
	for _, c := range []struct {
		err    error
		kind   Kind
		status int
		code   int
	}{
		{fmt.Errorf("model m: %w", late), Exhausted, 429, 8},
		{fmt.Errorf("%w: x", ErrRequest), Invalid, 400, 3},
		{fmt.Errorf("x: %w", context.Canceled), Cancelled, 499, 1},
		{context.DeadlineExceeded, Late, 503, 4},
		{errors.New("x"), Internal, 500, 13},
	} {
		k := KindOf(c.err)
		if k != c.kind || k.Status() != c.status || k.Code() != c.code {
			t.Errorf("%v: %v, %d, %d; want %v, %d, %d", c.err, k, k.Status(), k.Code(), c.kind,
				c.status, c.code)
		}
	}
	if got := RetryAfter(fmt.Errorf("%w", late)); got != time.Second {
		t.Errorf("retry after %v", got)
	}
	if RetryAfter(errors.New("x")) != 0 || !errors.Is(late, late.Err) {
		t.Error("the cause or the time is lost")
	}
	for k := range Kind(len(kinds)) {
		if k.String() == "" || k.Status() < 400 || k.Code() < 1 || k.Code() > 16 {
			t.Errorf("kind %d: %q, %d, %d", k, k, k.Status(), k.Code())
		}
	}
}
