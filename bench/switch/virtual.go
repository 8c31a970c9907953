package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// line is one of those of go test -json (go doc test2json) that tell of an attribute of a test.
type line struct {
	Action, Test, Key, Value, Output string
}

// exposure is what TestExposed of package engine says of a switch in virtual time: an attribute of
// this form.
type exposure struct {
	Model, Computer string
	GBs             float64
	Exposed, Least  time.Duration
}

// exposedKey is the attribute's.
const exposedKey = "exposed"

// virtually holds whole models to the optimum in virtual time, where a transfer takes what the bus
// takes, and no processor: what this host can play of a bus does not matter then. Of each bus the
// worst counts.
func virtually(ctx context.Context, b *bench) error {
	test := exec.CommandContext(ctx, "go", "test", "-count=1", "-timeout=0", "-json", "-run",
		"^TestExposed$", "./engine")
	test.Env = append(os.Environ(), "WEIR_LONG=1")
	out, failed := test.Output()
	all, said, err := exposures(bytes.NewReader(out))
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("it says nothing: run this from the module's root: %s", said)
	}
	if err == nil {
		err = b.exposed(all)
	}
	if err == nil && failed != nil && b.heldVirtually() {
		err = fmt.Errorf("%w: %s", failed, said)
	}
	if err != nil {
		return fmt.Errorf("go test ./engine -run TestExposed: %w", err)
	}
	return nil
}

// exposures reads what the test says, and what it printed.
func exposures(r io.Reader) (all []exposure, printed string, err error) {
	for d := json.NewDecoder(r); ; {
		var l line
		if err := d.Decode(&l); err == io.EOF {
			return all, printed, nil
		} else if err != nil {
			return nil, printed, err
		}
		printed += l.Output
		if l.Action != "attr" || l.Key != exposedKey {
			continue
		}
		var e exposure
		if err := json.Unmarshal([]byte(l.Value), &e); err != nil {
			return nil, printed, fmt.Errorf("%s: %w", l.Test, err)
		}
		all = append(all, e)
	}
}

// exposed notes the worst of each bus as its claim, and of each model and device behind it as a
// figure.
func (b *bench) exposed(all []exposure) error {
	worst := map[float64]float64{}
	for _, e := range all {
		over := 1.0
		switch {
		case e.Least > 0:
			over = float64(e.Exposed) / float64(e.Least)
		case e.Exposed > 0:
			over = 1 + float64(e.Exposed)/float64(time.Microsecond) // of what is no more than noise
		}
		name := fmt.Sprintf("virtual, %v GB/s, %s on %s, exposed over its optimum", e.GBs, e.Model,
			e.Computer)
		b.Figures[name] = max(b.Figures[name], over)
		worst[e.GBs] = max(worst[e.GBs], over)
	}
	for _, gbs := range buses {
		over, ok := worst[gbs]
		if !ok {
			return fmt.Errorf("nothing is said of a bus of %v GB/s", gbs)
		}
		b.Claims.Check(virtualClaim(gbs), over, exposedBound, true)
	}
	return nil
}

// virtualClaim is the name of what is held behind a bus in virtual time.
func virtualClaim(gbs float64) string {
	return fmt.Sprintf("far, %v GB/s, exposed over its optimum in virtual time, worst of all", gbs)
}

// heldVirtually reports whether all buses hold the bound.
func (b *bench) heldVirtually() bool {
	for _, c := range b.Claims {
		for _, gbs := range buses {
			if c.Name == virtualClaim(gbs) && c.Rounds[0] > c.Bound {
				return false
			}
		}
	}
	return true
}
