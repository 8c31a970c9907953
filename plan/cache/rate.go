package cache

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/plan"
)

// rateProblem is the problem under which choices have the rate of bfloat16: plans that multiply in
// it want the rate, which is measured once for a processor.
const rateProblem = "rate of bfloat16"

// restoreRate has the target of a plan take the rate that was kept.
func restoreRate(o plan.Options) {
	if way := o.Choices[rateProblem]; way != "" && o.Target != nil {
		o.Target.Features().Costs.BF16Rate.Restore(way)
	}
}

// keepRate keeps the rate that a plan in mixed precision wants if this process has measured it, and
// nobody before.
func (c *Cache) keepRate(o plan.Options) error {
	if p := o.Passes.Precision; p != pass.BF16 && p != pass.Auto {
		return nil
	}
	t := o.Target
	way := t.Features().Costs.BF16Rate.Fresh()
	if way == "" || c.Choices(t)[rateProblem] != "" {
		return nil
	}
	return c.KeepChoices(t, compute.Choices{rateProblem: way})
}
