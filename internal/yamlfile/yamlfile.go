// Package yamlfile reads files in YAML that people write: strictly, and with faults that speak of
// the file and its lines, not of Go's types.
//
// Meet first: [Words], whose Decode reads a file into a struct, and [Text], a value with a written
// form of its own.
//
// Concurrency: nothing here has state; decoding does not change Words.
//
// What it refuses: unknown keys, keys given twice, values of a wrong type, more than one document,
// and an empty file; all faults that the YAML package finds are reported together.
package yamlfile

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxBytes bounds a file, which people write by hand.
const MaxBytes = 1 << 20

// ErrLong is the kind of error about a file beyond MaxBytes.
var ErrLong = errors.New("too long")

// Read reads a file whole.
func Read(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err == nil && len(text) > MaxBytes {
		err = fmt.Errorf("%w: at most %d bytes are read", ErrLong, MaxBytes)
	}
	return text, err
}

// Words say of a kind of files what is told to whoever writes one wrongly.
type Words struct {
	Empty string // what an empty file lacks
	Holds string // what one file holds: "one scenario"
	// Keys are those that a Go type of the file has, and Forms how a value of one is written, by
	// the type's name with its package. A name that ends with a point stands for all that begin
	// so.
	Keys, Forms map[string]string
}

// forms are those of types that all files have.
var forms = map[string]string{
	"bool": "true or false", "time.Duration": "a duration such as 20s", "float64": "a number",
	"int": "a whole number", "string": "text", "[]string": "a list",
	"[]time.Duration": "a list of times such as [0s, 10ms]",
}

// Decode reads the one document of a file into a struct.
func (w Words) Decode(text []byte, into any) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	err := d.Decode(into)
	var wrong *yaml.TypeError
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("the file is empty: %s", w.Empty)
	case errors.As(err, &wrong):
		faults := make([]string, len(wrong.Errors))
		for i, fault := range wrong.Errors {
			faults[i] = w.plain(fault)
		}
		return errors.New(strings.Join(faults, "; "))
	case err != nil:
		return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("more than one YAML document: a file holds %s", w.Holds)
	}
	return nil
}

var (
	unknownKey = regexp.MustCompile(`^(line \d+): field (.*) not found in type (\S+)$`)
	wrongType  = regexp.MustCompile(
		"(?s)^(line \\d+): cannot unmarshal !!(\\S+)(?: `(.*)`)? into (\\S+)$")
)

// plain rewrites a fault of the YAML package, which speaks of Go's types.
func (w Words) plain(fault string) string {
	if m := unknownKey.FindStringSubmatch(fault); m != nil {
		return fmt.Sprintf("%s: unknown key %q: want %s", m[1], m[2], w.Keys[m[3]])
	}
	m := wrongType.FindStringSubmatch(fault)
	if m == nil {
		return fault
	}
	what := m[3]
	if what == "" {
		what = map[string]string{"seq": "a list", "map": "keys with values"}[m[2]]
	}
	return fmt.Sprintf("%s: %s: want %s", m[1], what, w.form(m[4]))
}

// form says how a value of a type is written.
func (w Words) form(of string) string {
	if form, ok := w.Forms[of]; ok {
		return form
	}
	for begin, form := range w.Forms {
		if strings.HasSuffix(begin, ".") && strings.HasPrefix(of, begin) {
			return form
		}
	}
	return forms[of]
}

// Fault is an error about a line, of an UnmarshalYAML, that Decode reports with the others.
func Fault(line int, format string, args ...any) error {
	return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: ", line) +
		fmt.Sprintf(format, args...)}}
}

// Whole is a whole number; the YAML package would cut 1.5 down to one.
type Whole int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (w *Whole) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return fmt.Errorf("%s: want a whole number", text)
	}
	*w = Whole(n)
	return nil
}

// Text is a value with a written form of its own. A wrong one becomes a fault with its line, like
// those that the YAML package finds itself.
type Text[T any, P interface {
	*T
	encoding.TextUnmarshaler
}] struct{ Value T }

// UnmarshalYAML implements yaml.Unmarshaler.
func (t *Text[T, P]) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return Fault(n.Line, "want one value, not a list or keys")
	}
	if err := P(&t.Value).UnmarshalText([]byte(n.Value)); err != nil {
		return Fault(n.Line, "%v", err)
	}
	return nil
}
