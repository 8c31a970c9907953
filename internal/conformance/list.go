package conformance

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Expected is a case that does not pass: a line of unsupported.txt.
type Expected struct {
	Name   string
	Status Status
	Only   []string // the editions that have the case, see [Edition]; none: all
	Reason string   // for readers
}

// ReadExpected reads a list of expectations, one a line: name, status, the editions of ONNX's cases
// that have it, where not all do, and, after a #, the reason.
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
		if len(f) < 2 || !slices.Contains([]Status{Failed, Unsupported}, Status(f[1])) ||
			reason == "" {
			return nil,
				fmt.Errorf("line %d: %q: want name, status, editions, # and reason", n, s.Text())
		}
		all = append(all, Expected{f[0], Status(f[1]), append([]string(nil), f[2:]...), reason})
	}
	return all, s.Err()
}

// WriteExpected writes a list that [ReadExpected] reads. Reasons are cut at a line break.
func WriteExpected(w io.Writer, all []Expected) error {
	for _, e := range all {
		reason, _, _ := strings.Cut(e.Reason, "\n")
		fields := append([]string{e.Name, string(e.Status)}, e.Only...)
		if _, err := fmt.Fprintf(w, "%s # %s\n", strings.Join(fields, " "), reason); err != nil {
			return err
		}
	}
	return nil
}
