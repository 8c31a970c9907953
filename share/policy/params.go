package policy

import (
	"time"

	"github.com/weirgpu/weir/share"
)

// validate gathers the faults found in the parameters of one policy.
func validate(object string, faults ...[]share.Fault) error {
	f := share.Faults{Object: object}
	for _, list := range faults {
		f.List = append(f.List, list...)
	}
	if len(f.List) == 0 {
		return nil
	}
	return f
}

// positive wants a duration above zero and of at most a minute.
func positive(field string, d time.Duration) []share.Fault {
	if d > 0 && d <= time.Minute {
		return nil
	}
	return []share.Fault{{Field: field, Value: d.String(), Bound: "must be above 0 and at most 1m"}}
}
