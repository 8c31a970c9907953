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
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	usage, err := share(ctx)
	if err != nil || len(usage) != 2 {
		t.Fatal(usage, err)
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
