package auth

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"path"
	"slices"
	"strings"
)

// Rights is a set of rights.
type Rights uint8

// The rights; see the package for what each allows.
const (
	Read Rights = 1 << iota
	Infer
	Load
	Push
	Job
	Admin
)

// rightNames are the names in the order of the bits.
var rightNames = []string{"read", "infer", "load", "push", "job", "admin"}

// ParseRights reads names with commas between them.
func ParseRights(text string) (r Rights, err error) {
	for name := range strings.SplitSeq(text, ",") {
		i := slices.Index(rightNames, strings.TrimSpace(name))
		if i < 0 {
			return 0, fmt.Errorf("%w: right %.40q: there are %s", ErrInvalid, name,
				strings.Join(rightNames, ", "))
		}
		r |= 1 << i
	}
	return r, nil
}

// names are those of the rights in the set.
func (r Rights) names() []string {
	list := make([]string, 0, bits.OnesCount8(uint8(r)))
	for i, name := range rightNames {
		if r&(1<<i) != 0 {
			list = append(list, name)
		}
	}
	return list
}

// String implements fmt.Stringer: the names with commas between them.
func (r Rights) String() string { return strings.Join(r.names(), ",") }

// MarshalJSON implements json.Marshaler: a list of names.
func (r Rights) MarshalJSON() ([]byte, error) { return json.Marshal(r.names()) }

// UnmarshalJSON implements json.Unmarshaler.
func (r *Rights) UnmarshalJSON(b []byte) (err error) {
	var list []string
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	*r, err = ParseRights(strings.Join(list, ","))
	return err
}

// Grant is a set of rights on the models whose names match a pattern.
type Grant struct {
	Pattern string `json:"models"` // in the syntax of path.Match
	Rights  Rights `json:"rights"`
}

// All is the pattern that every model's name matches.
const All = "*"

// check reports a grant that cannot be.
func (g Grant) check() error {
	if _, err := path.Match(g.Pattern, ""); err != nil || g.Pattern == "" || len(g.Pattern) > 255 {
		return fmt.Errorf("%w: models %.300q: give a pattern such as *, team-* or resnet50",
			ErrInvalid, g.Pattern)
	}
	if g.Rights == 0 {
		return fmt.Errorf("%w: no right: there are %s", ErrInvalid, strings.Join(rightNames, ", "))
	}
	return nil
}

// gives reports whether the grant has the right, for a model that it covers.
func (g Grant) gives(r Rights) bool { return g.Rights&(r|Admin) != 0 }

// covers reports whether the grant is about a model.
func (g Grant) covers(model string) bool {
	if g.Pattern == All || model == All {
		return g.Pattern == All // names with a slash too, which no model of a folder has
	}
	ok, _ := path.Match(g.Pattern, model)
	return ok
}
