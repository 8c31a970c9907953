package cache

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/plan"
)

// The problems under which choices have the rates of bfloat16: plans that multiply in it want them,
// and they are measured once for a processor.
const (
	rateProblem  = "rate of bfloat16"
	shortProblem = "rate of bfloat16 in short products"
)

// ratesOf are the rates of a target by the problem that each is kept under.
func ratesOf(t compute.Target) map[string]*compute.Rate {
	c := t.Features().Costs
	return map[string]*compute.Rate{rateProblem: c.BF16Rate, shortProblem: c.BF16Short}
}

// restoreRates has the target of a plan take the rates that were kept.
func restoreRates(o plan.Options) {
	if o.Target == nil {
		return
	}
	for problem, rate := range ratesOf(o.Target) {
		if way := o.Choices[problem]; way != "" {
			rate.Restore(way)
		}
	}
}

// keepRates keeps the rates that a plan in mixed precision wants which this process has measured,
// and nobody before.
func (c *Cache) keepRates(o plan.Options) error {
	if p := o.Passes.Precision; p != pass.BF16 && p != pass.Auto {
		return nil
	}
	kept, fresh := c.Choices(o.Target), compute.Choices{}
	for problem, rate := range ratesOf(o.Target) {
		if way := rate.Fresh(); way != "" && kept[problem] == "" {
			fresh[problem] = way
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	return c.KeepChoices(o.Target, fresh)
}
