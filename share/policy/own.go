package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/weirgpu/weir/share"
)

// ErrRegister is the kind of the errors of [Register].
var ErrRegister = errors.New("policy cannot be registered")

// Own is a policy that a program brings with it.
type Own struct {
	// Name is what a user writes, and what the policy's Name returns.
	Name string
	// Summary says in a line what the policy does, for people.
	Summary string
	// Needs is what a device must be able to do for the policy. The zero value is right for one
	// that lends the whole device to one job at a time.
	Needs share.Can
	// New returns a policy value for one device. It is called for each device, and for each run of
	// a scenario, from any goroutine.
	New func() share.Policy
}

// added are the policies that were registered.
var added struct {
	sync.RWMutex
	rows []Row
}

// Register makes a policy of the program's own known wherever one is named: on a host, in a
// scenario, in a simulation, in a list such as [All]. It has no parameters that a user could name;
// New may close over some. A program registers a policy once, before it names it. The error is an
// [ErrRegister]: a name that is taken or that could not be written in a list, or no New.
func Register(o Own) error {
	switch {
	case o.New == nil:
		return fmt.Errorf("policy %q: %w: New is nil", o.Name, ErrRegister)
	case o.Name == "" || o.Name == "all" || strings.ContainsAny(o.Name, ":,= \t\r\n"):
		return fmt.Errorf("policy %q: %w: want a name other than all, without spaces and any of "+
			": , =", o.Name, ErrRegister)
	}
	added.Lock()
	defer added.Unlock()
	for _, row := range append(builtIn(), added.rows...) {
		if row.Name == o.Name {
			return fmt.Errorf("policy %q: %w: the name is taken", o.Name, ErrRegister)
		}
	}
	m := without(nil)
	m.make = func() (share.Policy, error) {
		p := o.New()
		if p == nil || p.Name() != o.Name {
			return nil, fmt.Errorf("policy %q: %w: New gives no policy of that name", o.Name,
				ErrRegister)
		}
		return p, nil
	}
	added.rows = append(added.rows, Row{Name: o.Name, Source: "registered by the program",
		Summary: o.Summary, Needs: o.Needs, with: func() maker { return m }})
	return nil
}

// registered returns the rows of the policies that were registered, in their order.
func registered() []Row {
	added.RLock()
	defer added.RUnlock()
	return slices.Clone(added.rows)
}
