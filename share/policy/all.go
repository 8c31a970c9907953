package policy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weirgpu/weir/share"
)

// ErrUnknown is the kind of the error for a policy name that is not in [All].
var ErrUnknown = errors.New("unknown policy")

// Default is the name of the policy used where a user names none.
const Default = "fair"

// Row describes one policy.
type Row struct {
	Name    string // what a user writes
	File    string // where it is, in this package
	Source  string // the paper or system it follows
	Summary string // one line for people
	// New returns the policy with default parameters, for one device.
	New func() share.Policy
}

// All returns every policy, in the order in which to show them.
func All() []Row {
	return []Row{
		{
			Name: "fair", File: "fair.go", Source: "mClock (OSDI 2010), EEVDF (1995)",
			Summary: "guarantees and limits hold, idle capacity is lent by weight and taken back " +
				"at once",
			New: func() share.Policy { return mustNew(NewFair(DefaultFair())) },
		},
		{
			Name: "priority", File: "priority.go",
			Source: "XSched highest priority first (OSDI 2025), AntMan (OSDI 2020)",
			Summary: "latency before standard before opportunistic, fair within a class, " +
				"guarantees kept",
			New: func() share.Policy { return mustNew(NewPriority(DefaultPriority())) },
		},
		{
			Name: "timeslice", File: "timeslice.go", Source: "stock GPU time slicing",
			Summary: "round robin with a fixed slice; compute, limit and class are ignored",
			New:     func() share.Policy { return mustNew(NewTimeslice(DefaultTimeslice())) },
		},
		{
			Name: "fifo", File: "fifo.go", Source: "Salus FIFO (MLSys 2020)",
			Summary: "one iteration at a time in order of arrival; compute, limit and class are " +
				"ignored",
			New: func() share.Policy { return NewFIFO() },
		},
	}
}

// New returns the policy of this name with default parameters, or an [ErrUnknown] that lists the
// names there are.
func New(name string) (share.Policy, error) {
	var names []string
	for _, row := range All() {
		if row.Name == name {
			return row.New(), nil
		}
		names = append(names, row.Name)
	}
	return nil, fmt.Errorf("policy %q: %w: want one of %s", name, ErrUnknown,
		strings.Join(names, ", "))
}

// mustNew is for default parameters, which are valid or the program is wrong.
func mustNew[P share.Policy](p P, err error) share.Policy {
	if err != nil {
		panic(err)
	}
	return p
}
