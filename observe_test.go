package weir_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/tensor"
)

// moments writes down what it is told of a Run.
type moments struct{ list []string }

func (m *moments) Reached(at weir.RunMoment) {
	m.list = append(m.list, [...]string{"begun", "placed", "granted", "computed"}[at])
}

// steps is moments with steps.
type steps struct{ moments }

func (s *steps) Stepped(node, operator, kernel string) {
	s.list = append(s.list, fmt.Sprint("step ", node != "", operator != "", kernel != ""))
}

// TestRunObserver: a Run tells its moments in order, and its steps to who wants them, between
// granted and computed, alone and under a share; a Run that ends early tells no more than it came
// to, and nobody is told of the Runs that follow.
func TestRunObserver(t *testing.T) { aloneAndShared(t, observed) }

func observed(t *testing.T, h *weir.Host) {
	m, err := weir.Load(digits.Model)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if h != nil {
		if _, err := h.Admit(t.Context(), m, weir.Job{Name: "digits",
			Shapes: map[string][]int{"image": {1, 1, 8, 8}}}); err != nil {
			t.Fatal(err)
		}
	}
	run := func(ctx context.Context) error {
		r, err := m.Run(ctx, weir.Inputs{"image": tensor.From(make([]float32, 64), 1, 1, 8, 8)})
		if err == nil {
			r.Close()
		}
		return err
	}
	var plain moments
	var all steps
	if err := errors.Join(run(weir.WithRunObserver(t.Context(), &plain)),
		run(weir.WithRunObserver(t.Context(), &all)), run(t.Context())); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(plain.list, " "); got != "begun placed granted computed" {
		t.Errorf("moments: %s", got)
	}
	last := len(all.list) - 1
	if last < 6 || !slices.Equal(all.list[:3], plain.list[:3]) || all.list[last] != "computed" {
		t.Fatalf("with steps: %q", all.list)
	}
	for _, s := range all.list[3:last] {
		if s != "step true true true" {
			t.Errorf("%s: something of it has no name", s)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	plain.list = nil
	if err := run(weir.WithRunObserver(ended, &plain)); err == nil ||
		slices.Contains(plain.list, "computed") {
		t.Errorf("a Run under a context that has ended: %v, %q", err, plain.list)
	}
}
