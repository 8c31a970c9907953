package policy

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirgpu/weir/share"
)

// ErrUnknown is the kind of the error for a policy that is not in [All].
var ErrUnknown = errors.New("unknown policy")

// ErrParam is the kind of the error for a parameter that a policy does not have, or a value that is
// none for it.
var ErrParam = errors.New("wrong parameter")

// Spec is a policy as a user writes it: a name, and values for some of its parameters, as in
// "baymax:qos=20ms,copies=2".
type Spec struct {
	Name string
	Args map[string]string
}

// ParseSpec reads the form that [Spec.String] writes. It does not look whether the policy exists.
func ParseSpec(text string) (Spec, error) {
	name, list, given := strings.Cut(text, ":")
	s := Spec{Name: name}
	if !given {
		return s, nil
	}
	s.Args = map[string]string{}
	for part := range strings.SplitSeq(list, ",") {
		key, value, ok := strings.Cut(part, "=")
		if !ok || key == "" {
			return s, fmt.Errorf("policy %s: %w: %q: want NAME=VALUE, as in fair:slice=10ms", name,
				ErrParam, part)
		}
		if _, twice := s.Args[key]; twice {
			return s, fmt.Errorf("policy %s: %w: %s is given twice", name, ErrParam, key)
		}
		s.Args[key] = value
	}
	return s, nil
}

// ParseList reads several policies with commas between them, as in
// "fifo,baymax:qos=20ms,copies=2,fair": what has an equals sign before any colon is one more
// parameter of the policy before it.
func ParseList(text string) ([]Spec, error) {
	var forms []string
	for part := range strings.SplitSeq(text, ",") {
		name, _, _ := strings.Cut(part, ":")
		if n := len(forms) - 1; n >= 0 && strings.Contains(name, "=") {
			forms[n] += "," + part
			continue
		}
		forms = append(forms, part)
	}
	specs := make([]Spec, len(forms))
	for i, form := range forms {
		var err error
		if specs[i], err = ParseSpec(strings.TrimSpace(form)); err != nil {
			return nil, err
		}
	}
	return specs, nil
}

// String writes the form that [ParseSpec] reads, with parameters in alphabetical order.
func (s Spec) String() string {
	keys := make([]string, 0, len(s.Args))
	for key := range s.Args {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	text := s.Name
	for i, key := range keys {
		text += string(":,"[min(i, 1)]) + key + "=" + s.Args[key]
	}
	return text
}

// Find returns the row of the policy of this name, or an [ErrUnknown] that lists the names there
// are.
func Find(name string) (Row, error) {
	var names []string
	for _, row := range All() {
		if row.Name == name {
			return row, nil
		}
		names = append(names, row.Name)
	}
	return Row{}, fmt.Errorf("policy %q: %w: want one of %s", name, ErrUnknown,
		strings.Join(names, ", "))
}

// New returns the policy that a spec says, such as "fair" or "fair:slice=10ms", for one device. The
// error is an [ErrUnknown], an [ErrParam] or a [share.ErrInvalid].
func New(spec string) (share.Policy, error) {
	s, err := ParseSpec(spec)
	if err != nil {
		return nil, err
	}
	return s.New()
}

// New returns the policy, for one device. The error is as that of the function [New].
func (s Spec) New() (share.Policy, error) {
	row, err := Find(s.Name)
	if err != nil {
		return nil, err
	}
	m := row.with()
	flags := flag.NewFlagSet(s.Name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	m.bind(flags)
	for key, value := range s.Args {
		if flags.Lookup(key) == nil {
			return nil, fmt.Errorf("policy %s: %w: no parameter %q: %s", s.Name, ErrParam, key,
				row.has())
		}
		if err := flags.Set(key, value); err != nil {
			return nil, fmt.Errorf("policy %s: %w: %s is %q: %w", s.Name, ErrParam, key, value, err)
		}
	}
	return m.make()
}

// Conserving reports whether the policy, with the parameters that the spec gives, leaves no device
// idle while a job without a limit waits for it, but for [FairParams].Await and
// [GapParams].Pause. The error is as that of the function [New].
func (s Spec) Conserving() (bool, error) {
	row, err := Find(s.Name)
	if err != nil {
		return false, err
	}
	p, err := s.New()
	if err != nil {
		return false, err
	}
	if p, ok := p.(interface{ lends() bool }); ok {
		return p.lends(), nil
	}
	return row.Honours.Conserving, nil
}

// Needs returns what a device must be able to do for the policy, with the parameters that the spec
// gives. The error is as that of the function [New].
func (s Spec) Needs() (share.Can, error) {
	row, err := Find(s.Name)
	if err != nil {
		return share.Can{}, err
	}
	p, err := s.New()
	if err != nil {
		return share.Can{}, err
	}
	if p, ok := p.(interface{ needs() share.Can }); ok {
		return row.Needs.With(p.needs()), nil
	}
	return row.Needs, nil
}

// Param is a parameter of a policy.
type Param struct {
	Name    string `json:"name"`
	Default string `json:"default"`
	// Unit says what a value is: "duration", "bytes", "number", "whole number", "true or false", or
	// "text".
	Unit string `json:"unit"`
	Help string `json:"help"` // one line for people
}

// Params lists the policy's parameters in alphabetical order.
func (r Row) Params() []Param {
	flags := flag.NewFlagSet(r.Name, flag.ContinueOnError)
	r.with().bind(flags)
	var list []Param
	flags.VisitAll(func(f *flag.Flag) {
		list = append(list, Param{f.Name, f.DefValue, unitOf(f.Value), f.Usage})
	})
	return list
}

// unitOf returns Param.Unit.
func unitOf(v flag.Value) string {
	g, ok := v.(flag.Getter)
	if !ok {
		return "text"
	}
	switch g.Get().(type) {
	case time.Duration:
		return "duration"
	case share.Bytes, *share.Bytes:
		return "bytes"
	case float64:
		return "number"
	case int, int64, uint, uint64:
		return "whole number"
	case bool:
		return "true or false"
	}
	return "text"
}

// has says which parameters there are.
func (r Row) has() string {
	var names []string
	for _, p := range r.Params() {
		names = append(names, p.Name)
	}
	if len(names) == 0 {
		return "it has none"
	}
	return "it has " + strings.Join(names, ", ")
}

// without is the maker of a policy that has no parameters.
func without(p share.Policy) maker {
	return maker{func(*flag.FlagSet) {}, func() (share.Policy, error) { return p, nil }}
}

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

// oneOf wants one of some words.
func oneOf(field, value string, words ...string) []share.Fault {
	list := ""
	for i, w := range words {
		if value == w {
			return nil
		}
		if i > 0 {
			list += ", "
		}
		list += w
	}
	return []share.Fault{{Field: field, Value: strconv.Quote(value),
		Bound: "must be one of " + list}}
}

// between wants a number from lo to hi.
func between(field string, v, lo, hi float64) []share.Fault {
	if v >= lo && v <= hi {
		return nil
	}
	return []share.Fault{{Field: field, Value: fmt.Sprint(v),
		Bound: fmt.Sprintf("must be from %g to %g", lo, hi)}}
}
