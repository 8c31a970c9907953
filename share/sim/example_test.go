package sim_test

import (
	"fmt"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/sim"
)

// A training job and a served model on one device, the second with requests at random times.
func Example() {
	res, err := sim.Run(sim.Scenario{
		Duration: time.Minute,
		Seed:     1,
		Jobs: []sim.Job{
			{
				Job:       share.Job{Name: "served", Share: share.Share{Class: share.Latency}},
				Arrival:   sim.Arrival{Poisson: 20},
				Iteration: sim.Spread{Mean: 10 * time.Millisecond},
				Step:      time.Millisecond,
			},
			{
				Job: share.Job{Name: "training",
					Share: share.Share{Class: share.Opportunistic}},
				Arrival:   sim.Arrival{Closed: 1},
				Iteration: sim.Spread{Mean: 80 * time.Millisecond},
				Step:      2 * time.Millisecond,
			},
		},
	}, "priority", sim.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range res.Jobs {
		r := &res.Jobs[i]
		fmt.Printf("%s: %.0f%% of the device, median %v\n", r.Name, 100*r.Share,
			r.Latency(0.5).Round(time.Millisecond))
	}
	// Output:
	// served: 20% of the device, median 11ms
	// training: 80% of the device, median 100ms
}
