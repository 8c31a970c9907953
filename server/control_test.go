package server

import (
	"errors"
	"slices"
	"testing"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
)

// TestControl: policy and share change while a model answers, and what cannot be changes nothing.
func TestControl(t *testing.T) {
	s := begin(t, Options{}, digitsSource())
	if p := s.Policies(); !slices.Contains(p, "fair") || !slices.Contains(p, "priority") ||
		slices.Contains(p, "no") || !slices.IsSorted(p) {
		t.Errorf("policies %v", p)
	}
	if err := s.SetPolicy("priority"); err != nil || s.Status().Policy != "priority" {
		t.Errorf("policy %s, %v", s.Status().Policy, err)
	}
	if err := s.SetPolicy("no"); !errors.Is(err, weir.ErrOption) ||
		s.Status().Policy != "priority" {
		t.Errorf("policy %s, %v", s.Status().Policy, err)
	}
	had := s.Status().Jobs[0].Share
	want := had
	want.Compute, want.Class = 0.5, weir.Latency
	if before, err := s.SetShare("digits", want); err != nil || before != had ||
		s.Status().Jobs[0].Share != want {
		t.Errorf("share %+v, before %+v, %v", s.Status().Jobs[0].Share, before, err)
	}
	small := want
	small.Memory = 1
	if _, err := s.SetShare("digits", small); !errors.Is(err, weir.ErrMemory) ||
		s.Status().Jobs[0].Share != want {
		t.Errorf("share %+v, %v", s.Status().Jobs[0].Share, err)
	}
	if _, err := s.SetShare("no", want); oip.KindOf(err) != oip.NotFound {
		t.Errorf("no model: %v", err)
	}
	pixels, _ := picture(t, 0)
	if r := ask(s, "POST", inferPath, inJSON(pixels, "")); r.StatusCode != 200 {
		t.Errorf("then the model answers %s", r.Status)
	}
	if s.Status().Jobs[0].Holds {
		t.Error("the device is held after all answers")
	}
}
