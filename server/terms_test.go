package server

import (
	"strings"
	"testing"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

// TestTerms: a model has the share that its terms say from the first request on, and no request
// raises a cap that somebody has set, then or while it answers; without one requests do.
func TestTerms(t *testing.T) {
	want := weir.Share{Class: weir.Latency, Compute: 0.3, Memory: weir.MiB}
	s := begin(t, Options{Host: weir.HostOptions{Memory: 256 * weir.MiB},
		Terms: func(model string) weir.Share {
			if model == "a" {
				return want
			}
			return weir.Share{}
		}}, times("a", 1), times("b", 1))
	share := func(name string) weir.Share {
		t.Helper()
		for _, j := range s.Status().Jobs {
			if strings.HasPrefix(j.Name, name) {
				return j.Share
			}
		}
		t.Fatalf("no job of %s", name)
		return weir.Share{}
	}
	ask := func(name string, rows int) error {
		x := tensor.From(make([]float32, 2*rows), rows, 2)
		a, err := s.Infer(t.Context(), name, "", &oip.Request{Inputs: []oip.Input{{Name: "x",
			Tensor: x}}})
		if err == nil {
			a.Close()
		}
		return err
	}
	const many = 1 << 20 // rows of 8 bytes
	if got := share("a"); got != want {
		t.Errorf("a has %+v, want %+v", got, want)
	}
	for _, rows := range []int{1, 2, 3, many, 4} {
		err := ask("a", rows)
		if (err != nil) != (rows == many) {
			t.Errorf("a, %d rows: %v", rows, err)
		}
		if got := share("a"); got != want {
			t.Errorf("after %d rows a has %+v, want %+v", rows, got, want)
		}
	}
	if err := ask("b", many); err != nil {
		t.Errorf("b: %v", err)
	}
	// what b holds for those rows may be its cap now, and no more
	now := share("b")
	now.Memory = 20 * weir.MiB
	if _, err := s.SetShare("b", now); err != nil {
		t.Fatal(err)
	}
	if err := ask("b", 3*many); err == nil || share("b") != now {
		t.Errorf("beyond its cap b answers (%v), with %+v", err, share("b"))
	}
	if err := ask("b", many); err != nil || share("b") != now {
		t.Errorf("within it: %v, %+v", err, share("b"))
	}
	// a version that is loaded later has the cap too
	if err := s.LoadAll(t.Context(), []Source{times("b", 2)}); err != nil {
		t.Fatal(err)
	}
	if err := ask("b", 3*many); err == nil {
		t.Error("a later version is beyond the cap of its model")
	}
}
