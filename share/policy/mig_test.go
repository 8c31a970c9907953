package policy_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/share/policy"
)

// The profiles of a device with seven slices, by what a job asks for, and the placements that
// nvidia-smi mig -lgipp lists for them, as in the user guide.
var migProfiles = []struct {
	name         string
	compute      int
	memory       share.Bytes // of 16 GiB
	starts, size []int       // in eighths of the memory
}{
	{"1g.1/8", 1, share.GiB, []int{0, 1, 2, 3, 4, 5, 6}, []int{1}},
	{"1g.2/8", 1, 4 * share.GiB, []int{0, 2, 4, 6}, []int{2}},
	{"2g.2/8", 2, share.GiB, []int{0, 2, 4}, []int{2}},
	{"3g.4/8", 3, 8 * share.GiB, []int{0, 4}, []int{4}},
	{"4g.4/8", 4, share.GiB, []int{0}, []int{4}},
	{"7g.8/8", 7, share.GiB, []int{0}, []int{8}},
}

// migDevice is a core under mig, and what is placed on it.
type migDevice struct {
	t      *testing.T
	core   *core.Core
	placed map[share.JobID]uint8
	n      int
}

func newMIGDevice(t *testing.T, units int) *migDevice {
	t.Helper()
	config, err := core.Config{Device: "sim:0", Units: units, Memory: 16 * share.GiB,
		Can: share.Can{Partition: true}}.ForPolicy("mig")
	if err != nil {
		t.Fatal(err)
	}
	k, err := core.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return &migDevice{t: t, core: k, placed: map[share.JobID]uint8{}}
}

// admit asks for a job of a profile, and checks where it is placed, or that there is no place.
func (d *migDevice) admit(profile int) error {
	d.t.Helper()
	f := &migProfiles[profile]
	d.n++
	spec := share.Job{Name: fmt.Sprint("job-", d.n),
		Share: share.Share{Compute: float64(f.compute) / 7, Memory: f.memory}}
	notices, err := d.core.Step(core.Event{Kind: core.Admit, Spec: &spec})
	var used uint8
	for _, mask := range d.placed {
		used |= mask
	}
	mask := func(start int) uint8 { return uint8(1<<f.size[0]-1) << start }
	if err != nil {
		for _, at := range f.starts {
			if used&mask(at) == 0 {
				d.t.Errorf("%s could be placed at %d beside %08b: %v", f.name, at, used, err)
			}
		}
		return err
	}
	id := notices[0].Job
	if _, err := d.core.Step(core.Event{Kind: core.Want, Job: id}); err != nil {
		d.t.Fatal(err)
	}
	j, _ := d.core.Job(id)
	at := slices.IndexFunc(f.starts, func(at int) bool {
		return j.Units == share.UnitRange(at, f.compute)
	})
	if at < 0 || used&mask(f.starts[at]) != 0 {
		d.t.Fatalf("%s has units %v beside memory slices %08b", f.name, j.Units, used)
	}
	d.placed[id] = mask(f.starts[at])
	return nil
}

func (d *migDevice) end(id share.JobID) {
	if _, ok := d.placed[id]; ok {
		delete(d.placed, id)
		if _, err := d.core.Step(core.Event{Kind: core.End, Job: id}); err != nil {
			d.t.Fatal(err)
		}
	}
}

// TestMIGPlacements: after any four admissions, an end and another admission, all instances are
// where the guide allows them, none overlap, and what was refused had no place.
func TestMIGPlacements(t *testing.T) {
	n := len(migProfiles)
	for code := range n * n * n * n * n {
		d := newMIGDevice(t, 7)
		for range 4 {
			d.admit(code % n)
			code /= n
		}
		d.end(share.JobID(1 + code%2))
		d.admit(code)
		if faults, err := d.core.Faults(); faults > 0 || t.Failed() {
			t.Fatalf("code %d: %d faults: %v", code, faults, err)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		d := newMIGDevice(t, 7)
		for range 200 {
			d.admit(r.IntN(n))
			d.end(share.JobID(1 + r.IntN(d.n)))
		}
	}
}

// TestMIGPacks: what fills a device fills it in any order.
func TestMIGPacks(t *testing.T) {
	for _, set := range [][]int{{4, 2, 0}, {4, 3}, {3, 3}, {2, 2, 2, 0}, {4, 0, 0, 0}, {3, 2, 0},
		{3, 2, 1}, {4, 1, 2}, {1, 1, 1, 1}, {0, 0, 0, 0, 0, 0, 0}, {5}} {
		permute(set, func(order []int) {
			d := newMIGDevice(t, 7)
			for _, profile := range order {
				if err := d.admit(profile); err != nil {
					t.Errorf("profiles %v in the order %v: %v", set, order, err)
				}
			}
		})
	}
}

// permute calls f with the list in every order.
func permute(list []int, f func([]int)) {
	list = slices.Clone(list)
	slices.Sort(list)
	for {
		f(list)
		i := len(list) - 2
		for i >= 0 && list[i] >= list[i+1] {
			i--
		}
		if i < 0 {
			return
		}
		k := len(list) - 1
		for list[k] <= list[i] {
			k--
		}
		list[i], list[k] = list[k], list[i]
		slices.Reverse(list[i+1:])
	}
}

// TestMIGRefuses: a refusal says what would fit.
func TestMIGRefuses(t *testing.T) {
	d := newMIGDevice(t, 7)
	for _, tc := range []struct {
		profile int
		kind    error
		says    string
	}{
		{4, nil, ""},
		{4, share.ErrNoCompute,
			"lower its compute to 0.4286 and its memory to 8GiB for 3g.4/8, or end"},
		{2, nil, ""},
		{3, share.ErrNoCompute, "lower its compute to 0.1429 and its memory to 4GiB for 1g.2/8"},
		{0, nil, ""},
		{0, share.ErrNoCompute, "nothing else would fit: end another job"},
	} {
		err := d.admit(tc.profile)
		if !errors.Is(err, tc.kind) || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: error is %v, want %q", migProfiles[tc.profile].name, err, tc.says)
		}
	}
	big := &share.Job{Name: "big", Share: share.Share{Memory: 9 * share.GiB}}
	d = newMIGDevice(t, 7)
	d.admit(0)
	if _, err := d.core.Step(core.Event{Kind: core.Admit, Spec: big}); !errors.Is(err,
		share.ErrNoMemory) || !strings.Contains(err.Error(), "its memory to 8GiB for 4g.4/8") {
		t.Errorf("9GiB beside an instance: %v", err)
	}
	big.Memory = 33 * share.GiB
	if _, err := d.core.Step(core.Event{Kind: core.Admit, Spec: big}); !errors.Is(err,
		share.ErrNever) {
		t.Errorf("more than the device: %v", err)
	}
	if _, err := policy.New("mig:slices=3"); !errors.Is(err, share.ErrInvalid) {
		t.Errorf("three slices: %v", err)
	}
}

// TestMIGRuns: a job has its slices to itself, and as much speed as they are of the device: on
// seven slices, on four, and on two.
func TestMIGRuns(t *testing.T) {
	for _, tc := range []struct {
		spec           string
		units          int
		compute        float64
		iterations     int64 // of 10 ms, in a second
		more, admitted int   // jobs beside
	}{
		{"mig", 14, 0, 14, 8, 6},   // two of fourteen units
		{"mig", 14, 0.4, 42, 2, 1}, // six
		{"mig", 108, 1, 100, 1, 0}, // all of an A100, with what is beyond seven slices
		{"mig:slices=4", 56, 0.25, 25, 4, 3},
		{"mig", 2, 0.5, 50, 2, 1},
		{"mig", 1, 0.3, 100, 1, 0},
	} {
		sc := spatial(tc.units)
		sc.Device.Memory = 16 * share.GiB
		for i := range 1 + tc.more {
			s := share.Share{Compute: tc.compute}
			sc.Jobs = append(sc.Jobs, job(fmt.Sprint(i), s, ms, always))
		}
		res := run(t, tc.spec, sc)
		admitted := 0
		for i := range res.Jobs {
			r := &res.Jobs[i]
			if r.Refused != nil {
				continue
			}
			admitted++
			if r.Iterations != tc.iterations {
				t.Errorf("%s, %d units: %d iterations, want %d", tc.spec, tc.units, r.Iterations,
					tc.iterations)
			}
		}
		if admitted != 1+tc.admitted {
			t.Errorf("%s, %d units: %d jobs of %.2f let in, want %d", tc.spec, tc.units, admitted,
				tc.compute, 1+tc.admitted)
		}
	}
}
