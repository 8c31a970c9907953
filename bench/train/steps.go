package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/weirgpu/weir/internal/sorting"
	"github.com/weirgpu/weir/plan"
)

// spent is what the steps of one kind of an update take together.
type spent struct {
	name  string
	steps int
	took  time.Duration
	bytes int64
}

// profile prints what each operator of an update takes, the most first, as the best of some
// updates, and how much memory they read and write in all.
func (t *training) profile(ctx context.Context, w io.Writer) error {
	const times = 20
	best := make([]time.Duration, len(t.plan.Steps))
	for i := range best {
		best[i] = time.Hour
	}
	at := map[*plan.Step]int{}
	for i := range t.plan.Steps {
		at[&t.plan.Steps[i]] = i
	}
	for range times {
		t.fill()
		begin := time.Now()
		err := t.instance.Profile(ctx, func(s *plan.Step, _ plan.Cost) {
			now := time.Now()
			best[at[s]] = min(best[at[s]], now.Sub(begin))
			begin = now
		})
		if err != nil {
			return err
		}
	}
	printSteps(w, t.plan, best)
	return nil
}

// printSteps prints the time of steps by operator and kernel.
func printSteps(w io.Writer, p *plan.Plan, best []time.Duration) {
	kinds, all := map[string]*spent{}, &spent{name: "all"}
	for i := range p.Steps {
		s := &p.Steps[i]
		name := fmt.Sprintf("%s (%s)", s.Node.Type, s.Kernel.Name())
		if kinds[name] == nil {
			kinds[name] = &spent{name: name}
		}
		for _, k := range []*spent{kinds[name], all} {
			k.steps, k.took, k.bytes = k.steps+1, k.took+best[i], k.bytes+s.Bytes
		}
	}
	list := []*spent{all}
	for _, k := range kinds {
		list = append(list, k)
	}
	sorting.By(list, func(a, b *spent) int { return cmp.Compare(b.took, a.took) })
	for _, k := range list {
		fmt.Fprintf(w, "        %8.1f us %7.2f MB %4d x %s\n",
			float64(k.took)/float64(time.Microsecond), float64(k.bytes)/1e6, k.steps, k.name)
	}
}
