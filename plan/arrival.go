package plan

import (
	"math"

	"github.com/weirgpu/weir/device/compute"
)

// Packed weights lie in the order of the steps that read them first. So they can be brought to a
// device from the first byte on while steps whose weights are there already run (Bai, Zhang, Zhu
// and Jin, "PipeSwitch: Fast Pipelined Context Switching for Deep Learning Applications", OSDI
// 2020, section 4.2).

// Arrival tells the runs of a program how much of its packed weights is there.
type Arrival interface {
	// Begin is told that the inputs of a run are on the device. Whoever has brought none of the
	// weights until then lets them be first on a way where each transfer waits for the one before.
	Begin()
	// Await returns when at least the first n bytes of the packed weights are there, with how many
	// are, or fails with what keeps them away. They stay until the run ends, whose x it is: Await
	// may bring them by it, and may give the lease of its gate back while it waits
	// ([compute.Exec.Aside]).
	Await(x *compute.Exec, n int64) (here int64, err error)
}

// Await has runs of the program, until it is called again, wait for the packed weights of each step
// just before the step. nil stands for weights that are all there.
func (r *Program) Await(a Arrival) { r.arrival = a }

// arrived is how much of the packed weights is there when a run begins, as far as it knows.
func (r *Program) arrived() int64 {
	if r.arrival == nil {
		return math.MaxInt64
	}
	return 0
}

// await waits for the packed weights of step i, of which so many bytes are known to be there.
func (r *Program) await(x *compute.Exec, i int, here *int64) (err error) {
	if *here == math.MaxInt64 || r.plan.Steps[i].needs <= *here {
		return nil
	}
	*here, err = r.arrival.Await(x, r.plan.Steps[i].needs)
	return err
}

// Borders returns the offsets in the packed weights at which what a step needs ends, of those steps
// that need more than the ones before them: ascending, the last one is PackedBytes.
func (p *Plan) Borders() (ends []int64) {
	var last int64
	for i := range p.Steps {
		if n := p.Steps[i].needs; n > last {
			ends, last = append(ends, n), n
		}
	}
	return ends
}
