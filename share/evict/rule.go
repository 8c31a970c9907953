package evict

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirgpu/weir/share"
)

// Default is the name of the rule where none is named.
const Default = "lru"

// ErrUnknown is the kind of the error for a rule that is not there.
var ErrUnknown = errors.New("no such eviction rule")

// Use is what a rule knows of a job that is being used.
type Use struct {
	// At is the time, which does not fall from one use to the next.
	At time.Duration
	// Size is what the job holds of the device, in bytes, with all that it has.
	Size share.Bytes
	// Reload is how long it takes to load all of that again; 0 where that is not known.
	Reload time.Duration
	// Often is how often the job was used, with this use, as [Uses] counts: at least 1.
	Often float64
}

// Rule orders jobs by ranks. The zero value of each is ready.
type Rule interface {
	// Name is the rule's name in flags and scenario files.
	Name() string
	// Used returns the rank of a job from this use of it on.
	Used(u Use) float64
	// Evicted is told that a job of this rank, the lowest of those that could be, was chosen.
	Evicted(rank float64)
}

// rules are all rules, the default first.
var rules = []func() Rule{
	func() Rule { return &LRU{} },
	func() Rule { return &GreedyDual{} },
}

// Names lists the rules by name, the default first.
func Names() []string {
	names := make([]string, len(rules))
	for i, make := range rules {
		names[i] = make().Name()
	}
	return names
}

// New returns a new rule of this name, [Default] for an empty one. The error is an [ErrUnknown].
func New(name string) (Rule, error) {
	if name == "" {
		name = Default
	}
	for _, make := range rules {
		if r := make(); r.Name() == name {
			return r, nil
		}
	}
	return nil, fmt.Errorf("eviction %q: %w: choose one of %s", name, ErrUnknown,
		strings.Join(Names(), ", "))
}
