package policy

import (
	"flag"
	"fmt"

	"github.com/weirgpu/weir/share"
)

// This file is NVIDIA's Multi-Instance GPU: "NVIDIA Multi-Instance GPU user guide", sections
// "Partitioning" and "Supported MIG profiles". A device is divided into instances, each with
// compute and memory slices of its own, by profiles that may only begin at certain slices.
//
//	MIG                          here
//	GPU instance                 the units and the part of the memory that one job has
//	profile 3g.20gb              profile 3g.4/8: three compute slices, four of eight of memory
//	compute slice                a seventh of the units, rounded down; the full profile has all
//	possible placements          profile.starts, in memory slices (nvidia-smi mig -lgipp)
//	memory slice                 an eighth of the memory and of its bandwidth (Terms.Bandwidth)
//
// Departures: a job gets the smallest profile that holds its guarantee and its memory, at its
// admission, where the most placements stay possible for others. Media engines and compute
// instances within an instance are left out. Devices of fewer than four units, which have no such
// thing, are halved or left whole.

// profile is a size of instance.
type profile struct {
	compute, memory int   // slices
	starts          []int // the memory slices at which it may begin
}

// geometry is how a kind of device is divided; profiles are from the smallest to the whole.
type geometry struct {
	compute, memory int
	profiles        []profile
}

// geometries are those of the devices with seven slices (A100, H100, H200), of the A30, and those
// of devices too small for either.
var geometries = []geometry{
	{7, 8, []profile{
		{1, 1, []int{0, 1, 2, 3, 4, 5, 6}}, {1, 2, []int{0, 2, 4, 6}}, {2, 2, []int{0, 2, 4}},
		{3, 4, []int{0, 4}}, {4, 4, []int{0}}, {7, 8, []int{0}},
	}},
	{4, 4, []profile{{1, 1, []int{0, 1, 2, 3}}, {2, 2, []int{0, 2}}, {4, 4, []int{0}}}},
	{2, 2, []profile{{1, 1, []int{0, 1}}, {2, 2, []int{0}}}},
	{1, 1, []profile{{1, 1, []int{0}}}},
}

// MIGParams are the parameters of [MIG].
type MIGParams struct {
	// Slices is the number of compute slices, 7, 4, 2 or 1, or the next of these that is not above
	// the number of units.
	Slices int
}

// DefaultMIG returns seven slices.
func DefaultMIG() MIGParams { return MIGParams{Slices: 7} }

// Validate reports all faults together.
func (p MIGParams) Validate() error {
	for i := range geometries {
		if p.Slices == geometries[i].compute {
			return nil
		}
	}
	return validate("policy mig", []share.Fault{{Field: "slices", Value: fmt.Sprint(p.Slices),
		Bound: "must be 7, 4, 2 or 1"}})
}

func (p *MIGParams) bind(f *flag.FlagSet) {
	f.IntVar(&p.Slices, "slices", p.Slices,
		"how many compute slices there are: 7, 4, 2 or 1, or fewer on a device of fewer units")
}

func migRow() Row {
	return Row{
		Name: "mig", File: "mig.go", Source: "NVIDIA MIG",
		Summary: "an instance of fixed size for every job, idle or not, where the placement " +
			"rules allow one",
		Needs: share.Can{Partition: true},
		Honours: Honours{Guarantee: true, Static: true, Absolute: true,
			Wait: Wait{Part: PartAlways}},
		with: func() maker {
			p := DefaultMIG()
			return maker{p.bind, func() (share.Policy, error) { return NewMIG(p) }}
		},
	}
}

// MIG gives every job an instance, from its admission to its end. It ignores limits and, but for
// opportunistic jobs, which have no guarantee, class.
type MIG struct {
	params MIGParams
	set    []share.Terms
}

// instance is the state of a job.
type instance struct {
	*profile // nil before it is placed
	start    int
}

func instanceOf(j *share.JobState) *instance { return j.State.(*instance) }

// NewMIG returns the policy, or the faults of its parameters.
func NewMIG(p MIGParams) (*MIG, error) { return &MIG{params: p}, p.Validate() }

// Name returns "mig".
func (p *MIG) Name() string { return "mig" }

// NewJobState returns the state of a job that has no instance yet.
func (p *MIG) NewJobState() any { return &instance{} }

// geometry returns how a device of so many units is divided.
func (p *MIG) geometry(units int) *geometry {
	for i := range geometries {
		if n := geometries[i].compute; n <= units && n <= p.params.Slices {
			return &geometries[i]
		}
	}
	return &geometries[len(geometries)-1]
}

// Admit lets a job in if there is a place for an instance that holds its guarantee and its memory.
func (p *MIG) Admit(s *share.Snapshot, j *share.JobState) error {
	g := p.geometry(s.Units)
	want, used := g.smallest(s, j), g.place(s)
	if want == nil {
		return fmt.Errorf("wants %v, the device has %v: %w: lower its memory",
			j.Memory.Cap.About(), s.Memory.About(), share.ErrNever)
	}
	if _, ok := g.best(used, want); ok {
		return nil
	}
	kind, room := share.ErrNoCompute, "nothing else would fit: end another job"
	for i := range g.profiles {
		f := &g.profiles[i]
		if _, ok := g.best(used, f); !ok {
			continue
		}
		if g.holds(f, j) {
			kind = share.ErrNoMemory
		}
		room = fmt.Sprintf("lower its compute to %.4g and its memory to %v for %s, or end another "+
			"job", float64(f.compute)/float64(g.compute), g.bytes(s, f).About(), g.name(f))
	}
	return fmt.Errorf("wants an instance %s, for a guarantee of %.4g and %v, and there is no "+
		"place for one beside the others: %w: %s", g.name(want), j.Share.Guarantee(),
		j.Memory.Cap.About(), kind, room)
}

// Decide grants each job its instance.
func (p *MIG) Decide(s *share.Snapshot) share.Decision {
	g := p.geometry(s.Units)
	g.place(s)
	p.set = p.set[:0]
	free := s.Free()
	for i := range s.Jobs {
		j := &s.Jobs[i]
		in := instanceOf(j)
		t := share.Terms{Units: g.units(s, in), Until: share.Forever, Yield: share.Kernel}
		if in.profile != nil {
			t.Bandwidth = bandwidth(s, in.memory, g.memory)
		}
		p.set = assign(p.set, j, t, free)
	}
	return share.Decision{Set: p.set}
}

// name returns the profile's name, such as 3g.4/8.
func (g *geometry) name(f *profile) string {
	return fmt.Sprintf("%dg.%d/%d", f.compute, f.memory, g.memory)
}

// bytes returns the memory of an instance.
func (g *geometry) bytes(s *share.Snapshot, f *profile) share.Bytes {
	return s.Memory * share.Bytes(f.memory) / share.Bytes(g.memory)
}

// holds reports whether the profile has the compute that the job was guaranteed.
func (g *geometry) holds(f *profile, j *share.JobState) bool {
	return f.compute >= whole(j.Share.Guarantee(), g.compute)
}

// smallest returns the smallest profile for the job, or nil if there is none.
func (g *geometry) smallest(s *share.Snapshot, j *share.JobState) *profile {
	for i := range g.profiles {
		if f := &g.profiles[i]; g.holds(f, j) && j.Memory.Cap <= g.bytes(s, f) {
			return f
		}
	}
	return nil
}

// place gives an instance to every job that has none of the profile that it is to have, and returns
// the memory slices of all, one a bit.
func (g *geometry) place(s *share.Snapshot) (used uint8) {
	missing := false
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if in := instanceOf(j); in.profile == g.smallest(s, j) {
			used |= in.slices()
		} else {
			in.profile, missing = nil, true
		}
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if in := instanceOf(j); missing && in.profile == nil {
			want := g.smallest(s, j)
			if start, ok := g.best(used, want); ok {
				in.profile, in.start = want, start
				used |= in.slices()
			}
		}
	}
	return used
}

// best returns where a profile is to begin: of the places that are free, the one that leaves the
// most to others, and of equal ones the last.
func (g *geometry) best(used uint8, f *profile) (start int, ok bool) {
	if f == nil {
		return 0, false
	}
	most := -1
	for _, at := range f.starts {
		in := instance{f, at}
		if used&in.slices() != 0 {
			continue
		}
		if n := g.places(used | in.slices()); n >= most {
			start, most = at, n
		}
	}
	return start, most >= 0
}

// places counts the placements of single instances that are possible.
func (g *geometry) places(used uint8) (n int) {
	for i := range g.profiles {
		for _, at := range g.profiles[i].starts {
			if in := (instance{&g.profiles[i], at}); used&in.slices() == 0 {
				n++
			}
		}
	}
	return n
}

// slices returns the memory slices of the instance, one a bit.
func (in *instance) slices() uint8 {
	if in.profile == nil {
		return 0
	}
	return (1<<in.memory - 1) << in.start
}

// units returns the units of the instance.
func (g *geometry) units(s *share.Snapshot, in *instance) share.UnitSet {
	switch per := s.Units / g.compute; {
	case in.profile == nil:
		return share.UnitSet{}
	case in.compute == g.compute:
		return s.All()
	default:
		return share.UnitRange(in.start*per, in.compute*per)
	}
}
