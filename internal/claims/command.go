package claims

import (
	"encoding/json"
	"fmt"
	"os"
)

// Command is the name of a command of bench/, as its messages begin with it.
type Command string

// Check ends the process with exit code 1, and a message on standard error, if err is not nil.
func (c Command) Check(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", c, err)
		os.Exit(1)
	}
}

// Finish writes what was measured to standard output as one JSON object, if that is asked for, and
// ends the process with exit code 1 unless all that is promised was held. It returns otherwise.
func (c Command) Finish(measured any, asJSON, held bool) {
	if asJSON {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", " ")
		c.Check(e.Encode(measured))
	}
	if !held {
		os.Exit(1)
	}
}
