package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/share"
)

// TestTextbook: of models of 2, 1, 2 and 3 in the room of 5, the one leaves that was used last
// longest ago, and as many as it takes.
func TestTextbook(t *testing.T) {
	size := map[share.JobID]int64{1: 2, 2: 1, 3: 2, 4: 3}
	b := newTextbook(5, []share.JobID{1, 2, 3, 4}, size) // leaves 3 and 4
	if !slices.Equal(b.here, []share.JobID{3, 4}) || b.hits != 0 || b.n != 0 {
		t.Fatalf("after loading %+v", b)
	}
	for _, tc := range []struct {
		job  share.JobID
		hits int64
		here []share.JobID
		free int64
	}{
		{3, 1, []share.JobID{4, 3}, 0},
		{2, 1, []share.JobID{3, 2}, 2},
		{1, 1, []share.JobID{3, 2, 1}, 0},
		{3, 2, []share.JobID{2, 1, 3}, 0},
		{4, 2, []share.JobID{3, 4}, 0},
	} {
		if b.ask(tc.job); b.hits != tc.hits || !slices.Equal(b.here, tc.here) || b.free != tc.free {
			t.Errorf("after %d: %+v, want %+v", tc.job, b, tc)
		}
	}
}

// TestReadPlayed: an iteration that was refused did not begin.
func TestReadPlayed(t *testing.T) {
	p, err := readPlayed(strings.NewReader(`
{"event":{"kind":"admit","at":0},"notices":[{"kind":"admitted","job":7,"name":"x","at":0,"from":0}]}
{"event":{"kind":"begin","at":1,"job":7},"notices":null}
{"event":{"kind":"begin","at":2,"job":7},"notices":null,"error":"not now"}
{"event":{"kind":"finish","at":3,"job":7},"notices":null}`))
	if err != nil || !slices.Equal(p.begins, []share.JobID{7}) ||
		!slices.Equal(p.jobs, p.begins) || p.names[7] != "x" {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := readPlayed(strings.NewReader("{")); err == nil {
		t.Error("half a line is read")
	}
}
