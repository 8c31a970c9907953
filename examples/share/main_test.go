package main

import (
	"context"
	"testing"
	"time"

	"github.com/weirgpu/weir"
)

// TestShare: both jobs run, in the memory that they may have, and neither keeps the other from the
// device.
func TestShare(t *testing.T) {
	var usage []weir.Usage
	// On a busy machine there may be no time for a run in so short a while: then a longer one.
	for most := 200 * time.Millisecond; most < time.Minute; most *= 4 {
		ctx, cancel := context.WithTimeout(t.Context(), most)
		got, err := share(ctx)
		late := ctx.Err() != nil && len(got) == 0
		cancel()
		if err != nil && !late {
			t.Fatal(err)
		}
		if usage = got; len(usage) == 2 && usage[0].Runs > 0 && usage[1].Runs > 0 {
			break
		}
	}
	if len(usage) != 2 {
		t.Fatal(usage)
	}
	for _, u := range usage {
		if u.Runs == 0 || u.Used <= 0 || u.Peak <= 0 || u.Peak > u.Share.Memory {
			t.Errorf("usage %+v", u)
		}
	}
	if r := usage[0]; r.Name != "requests" || r.Share.Memory != 2*weir.MiB {
		t.Errorf("usage %+v", r)
	}
}
