package scenario

import (
	"errors"
	"fmt"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/policy"
)

// AllPolicies, in a list of policies, stands for every policy there is.
const AllPolicies = "all"

// LeftOut is a policy that was asked for and cannot be enforced on the device.
type LeftOut struct {
	Policy string `json:"policy"`
	Reason string `json:"reason"`
}

// policies returns the policies to run, as policy.New reads them: those asked for, or the
// scenario's own. Each entry of asked is itself a list with commas.
func (s *Scenario) policies(asked []string) ([]policy.Spec, error) {
	if len(asked) == 0 {
		asked = []string{s.Policy}
	}
	var specs []policy.Spec
	var faults []error
	for _, text := range asked {
		list, err := policy.ParseList(text)
		if err != nil {
			faults = append(faults, err)
		}
		for _, spec := range list {
			if spec.Name == AllPolicies && len(spec.Args) == 0 {
				specs = append(specs, everyPolicy()...)
			} else if _, err := spec.New(); err != nil {
				faults = append(faults, err)
			} else {
				specs = append(specs, spec)
			}
		}
	}
	return specs, errors.Join(faults...)
}

func everyPolicy() []policy.Spec {
	var specs []policy.Spec
	for _, row := range policy.All() {
		specs = append(specs, policy.Spec{Name: row.Name})
	}
	return specs
}

// enforceable parts policies by whether a device can enforce them. Where it can enforce none, the
// error says why.
func enforceable(specs []policy.Spec, can share.Can, device string) (run []string, out []LeftOut,
	err error) {
	var reasons []error
	for _, spec := range specs {
		needs, err := spec.Needs()
		if err != nil {
			return nil, nil, err
		}
		if err := can.Enforces(spec.Name, needs, device); err != nil {
			reasons = append(reasons, err)
			out = append(out, LeftOut{spec.String(), err.Error()})
			continue
		}
		run = append(run, spec.String())
	}
	if len(run) == 0 {
		return nil, nil, fmt.Errorf("%w: %w", ErrScenario, errors.Join(reasons...))
	}
	return run, out, nil
}
