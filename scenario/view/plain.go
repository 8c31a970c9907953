package view

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/weirgpu/weir/scenario"
)

// View shows progress.
type View interface {
	// Stage says what is prepared or run next.
	Stage(what string)
	// Live shows the state of a running phase.
	Live(l scenario.Live)
	// Close ends the view and leaves the output ready for other text.
	Close()
}

// plain writes lines.
type plain struct {
	mu   sync.Mutex
	w    io.Writer
	next time.Duration // of the phase, when the next line is due
}

// linesEvery is how often a plain view writes the state of a phase.
const linesEvery = 2 * time.Second

// Stage implements View.
func (v *plain) Stage(what string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.next = linesEvery
	fmt.Fprintln(v.w, what)
}

// Live implements View.
func (v *plain) Live(l scenario.Live) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if l.Elapsed < v.next {
		return
	}
	v.next = l.Elapsed + linesEvery
	var b strings.Builder
	fmt.Fprintf(&b, "  %4.0f s", l.Elapsed.Seconds())
	for _, j := range l.Jobs {
		fmt.Fprintf(&b, "  %s", j.Name)
		if j.Place > 0 {
			fmt.Fprintf(&b, " waits at place %d", j.Place)
			continue
		}
		if j.Recent >= 0 {
			fmt.Fprintf(&b, " %.0f %%", 100*j.Recent)
		}
		fmt.Fprintf(&b, " p50 %.1f p99 %.1f ms queue %d", j.Latency.P50, j.Latency.P99, j.Queue)
	}
	fmt.Fprintln(v.w, b.String())
}

// Close implements View.
func (v *plain) Close() {}
