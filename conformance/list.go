package conformance

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Expected is a case that does not pass: a line of unsupported.txt.
type Expected struct {
	Name   string
	Status Status
	Reason string // for readers
}

// ReadExpected reads a list of expectations, one a line: name, status and, after a #, the reason.
// Lines that begin with # are comments.
func ReadExpected(r io.Reader) ([]Expected, error) {
	var all []Expected
	s := bufio.NewScanner(r)
	for n := 1; s.Scan(); n++ {
		line, reason, _ := strings.Cut(s.Text(), "#")
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		reason = strings.TrimSpace(reason)
		if len(f) != 2 || reason == "" {
			return nil, fmt.Errorf("line %d: %q: want name, status, # and reason", n, s.Text())
		}
		all = append(all, Expected{f[0], Status(f[1]), reason})
	}
	return all, s.Err()
}

// WriteExpected writes a list that [ReadExpected] reads. Reasons are cut at a line break.
func WriteExpected(w io.Writer, all []Expected) error {
	for _, e := range all {
		reason, _, _ := strings.Cut(e.Reason, "\n")
		if _, err := fmt.Fprintf(w, "%s %s # %s\n", e.Name, e.Status, reason); err != nil {
			return err
		}
	}
	return nil
}
