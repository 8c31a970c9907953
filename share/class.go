package share

import "fmt"

// Class says what a job is for. Policies that know classes serve latency work before standard work
// and opportunistic work last; others ignore it.
type Class uint8

const (
	// Standard is batch work such as training: it wants throughput. It is the class of a job that
	// names none.
	Standard Class = iota
	// Latency is work that somebody waits for.
	Latency
	// Opportunistic is work that takes what is left over. Its Compute is a weight against other
	// opportunistic work and guarantees nothing.
	Opportunistic
)

var classNames = [...]string{Standard: "standard", Latency: "latency",
	Opportunistic: "opportunistic"}

// ParseClass reads "latency", "standard" or "opportunistic". The empty text is Standard.
func ParseClass(text string) (Class, error) {
	if text == "" {
		return Standard, nil
	}
	for c, name := range classNames {
		if text == name {
			return Class(c), nil
		}
	}
	return 0, fmt.Errorf("class %q: want latency, standard or opportunistic", text)
}

// String returns the class's name as written in scenario files and flags.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return fmt.Sprintf("class(%d)", uint8(c))
}

// MarshalText writes String's form.
func (c Class) MarshalText() ([]byte, error) {
	if int(c) >= len(classNames) {
		return nil, fmt.Errorf("class %d: unknown", uint8(c))
	}
	return []byte(classNames[c]), nil
}

// UnmarshalText reads what [ParseClass] accepts.
func (c *Class) UnmarshalText(text []byte) error {
	v, err := ParseClass(string(text))
	if err != nil {
		return err
	}
	*c = v
	return nil
}
