// Command policy shares a device under a policy of its own, live and in virtual time.
//
//	go run ./examples/policy
//
// Meet first: leastServed, which is the policy, and register, which makes it known by its name: to
// a host, to scenarios and to simulations alike.
//
// Concurrency: none of its own.
//
// What it refuses: nothing; it takes no arguments.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/policy"
)

// leastServed lends the whole device, for a slice at a time, to the job that waits and has used
// least of it for its weight. It is a function of the snapshot alone, and so the same live and in
// simulation.
type leastServed struct {
	slice time.Duration
	terms [1]share.Terms
}

// Name implements share.Policy.
func (*leastServed) Name() string { return "least-served" }

// Decide implements share.Policy.
func (p *leastServed) Decide(s *share.Snapshot) share.Decision {
	if !s.Unused() {
		return share.Decision{} // the slice of the job that runs ends by itself
	}
	var next *share.JobState
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.Phase == share.Waiting && (next == nil || served(j) < served(next)) {
			next = j
		}
	}
	if next == nil {
		return share.Decision{}
	}
	p.terms[0] = share.Terms{Job: next.ID, Units: s.All(), Until: s.Now + p.slice}
	return share.Decision{Set: p.terms[:]}
}

func served(j *share.JobState) float64 { return j.Used.Seconds() / j.Share.Weight() }

// register makes the policy known.
func register() error {
	return policy.Register(policy.Own{Name: "least-served",
		Summary: "the job that has used least for its weight is next",
		New:     func() share.Policy { return &leastServed{slice: 5 * time.Millisecond} }})
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "policy:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if err := register(); err != nil {
		return err
	}
	usage, err := live(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("live: %s was granted the device %d times for %d runs\n", usage.Name, usage.Grants,
		usage.Runs)
	shares, err := simulate(ctx)
	for name, part := range shares {
		fmt.Printf("simulated: %s had %.1f %% of the device\n", name, 100*part)
	}
	return err
}

// live runs a model on a host under the policy.
func live(ctx context.Context) (weir.Usage, error) {
	host, err := weir.NewHost(weir.HostOptions{Policy: "least-served"})
	if err != nil {
		return weir.Usage{}, err
	}
	defer host.Close()
	m, err := weir.Load(digits.Model)
	if err != nil {
		return weir.Usage{}, err
	}
	defer m.Close()
	job, err := host.Admit(ctx, m, weir.Job{Name: "digits",
		Share: weir.Share{Memory: weir.MiB}})
	if err != nil {
		return weir.Usage{}, err
	}
	image, err := weir.NewTensor(make([]float32, digits.Side*digits.Side), 1, 1, digits.Side,
		digits.Side)
	if err != nil {
		return weir.Usage{}, err
	}
	for range 10 {
		out, err := m.Run(ctx, weir.Inputs{"image": image})
		if err != nil {
			return weir.Usage{}, err
		}
		out.Close()
	}
	return job.Usage(), host.Status().Fault
}

// described are two jobs that always have work, of which one weighs three times as much.
const described = `
device: h100
policy: least-served
duration: 20s
jobs:
  - {name: light, compute: 0.2, memory: 1GiB, iteration: 7ms, arrival: {closed: 1}}
  - {name: heavy, compute: 0.6, memory: 1GiB, iteration: 3ms, arrival: {closed: 1}}
`

// simulate returns the part of the device that each of the jobs gets in virtual time.
func simulate(ctx context.Context) (map[string]float64, error) {
	s, err := scenario.Parse(strings.NewReader(described))
	if err != nil {
		return nil, err
	}
	res, err := scenario.Simulate(ctx, s, scenario.Options{})
	if err != nil {
		return nil, err
	}
	parts := map[string]float64{}
	for _, j := range res.Jobs {
		if j.Error != "" {
			err = errors.Join(err, errors.New(j.Error))
		}
		parts[j.Name] = j.DeviceShare
	}
	return parts, err
}
