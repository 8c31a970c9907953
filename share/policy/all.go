package policy

import (
	"flag"
	"time"

	"github.com/weirgpu/weir/share"
)

// Default is the name of the policy used where a user names none.
const Default = "fair"

// Row describes one policy.
type Row struct {
	Name    string // what a user writes
	File    string // where it is, in this package; "" of one from [Register]
	Source  string // the paper or system it follows
	Summary string // one line for people
	// Needs is what a device must be able to do for the policy to be enforced, with default
	// parameters; [Spec.Needs] says it for others.
	Needs share.Can
	// Honours says which parts of a share the policy heeds.
	Honours Honours

	// with returns what makes the policy from parameters, which start as the defaults.
	with func() maker
}

// Honours says which parts of a [share.Share], beside its memory, a policy heeds.
type Honours struct {
	Guarantee bool `json:"guarantee"` // Compute holds while the job has work
	Limit     bool `json:"limit"`     // Limit is never exceeded but by the step that ends a hold
	Class     bool `json:"class"`
	// Conserving: the device is not left idle while a job without a limit waits for it, but for
	// [FairParams].Await and, where gaps are filled, [GapParams].Pause, with default parameters;
	// [Spec.Conserving] says it for others.
	Conserving bool `json:"conserving"`
	// Burst is the device time by which use may exceed Limit over any window, apart from the step
	// that ends a hold, with default parameters.
	Burst time.Duration `json:"burst,omitempty"`
	// Window is the time over which Limit holds, with default parameters; 0: any time.
	Window time.Duration `json:"window,omitempty"`
	// Wait bounds how long a job waits that always has work, with default parameters.
	Wait Wait `json:"wait,omitzero"`
	// Static: a job takes its part of the device from its admission to its end, with work or
	// without. Elsewhere a job without work might as well not be there.
	Static bool `json:"static,omitempty"`
	// Absolute: Compute is more than a weight. Elsewhere a common factor in all of them, where all
	// have one, changes nothing.
	Absolute bool `json:"absolute,omitempty"`
}

// maker makes one policy.
type maker struct {
	bind func(*flag.FlagSet) // declares the parameters
	make func() (share.Policy, error)
}

// All returns every policy, in the order in which to show them: weir's, and then those that the
// program has registered.
func All() []Row { return append(builtIn(), registered()...) }

// builtIn returns weir's own.
func builtIn() []Row {
	return []Row{
		fairRow(), priorityRow(), timesliceRow(), fifoRow(),
		mpsRow(), fgpuRow(), stealRow(), mergeSliceRow(), gpuShareRow(), migRow(),
		cgpuRow(), fillRow(), gaiaRow(), geminiRow(), packRow(), srtfRow(), vgpuRow(),
		antmanRow(), baymaxRow(), orionRow(), prophetRow(), tgsRow(),
	}
}
