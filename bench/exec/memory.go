package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// memoryCap is far below what eight processes ask for.
const memoryCap = 512 << 20

// memory: processes of one job that allocate and free at random over all families of calls, and the
// same under kill -9. The device's own ledger knows the most that was ever held on it.
func memory(r *results, h *host, _ int) error {
	if err := operations(r, h); err != nil {
		return err
	}
	return kills(r, h)
}

func operations(r *results, h *host) error {
	const processes = 8
	each := pick(r, 100_000, 1000)
	// One job: a shell starts all its processes.
	script := fmt.Sprintf(
		`for i in 1 2 3 4 5 6 7 8; do %s %d 64 $i 2 >%s/storm.$i & done; wait; echo '{}'; read line`,
		filepath.Join(h.driver, "bin", "alloc_storm"), each, h.dir)
	p, err := h.program([]string{"--memory", strconv.Itoa(memoryCap) + "B"}, "sh")
	if err != nil {
		return err
	}
	p.Args = append(p.Args[:len(p.Args)-1], "/bin/sh", "-c", script)
	// The warning of a shell that has no terminal does not concern anybody.
	if err := p.Start(); err != nil {
		return err
	}
	defer p.kill()
	if err := within(5*time.Minute, "all processes end",
		func() bool { return strings.Contains(p.out.String(), "{}") }); err != nil {
		return err
	}
	refused, allocations := 0, 0
	for i := 1; i <= processes; i++ {
		var got struct{ Operations, Allocations, Refused int }
		text, err := os.ReadFile(filepath.Join(h.dir, fmt.Sprintf("storm.%d", i)))
		if err == nil {
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			err = json.Unmarshal([]byte(lines[len(lines)-1]), &got)
		}
		if err != nil || got.Operations != each {
			return fmt.Errorf("process %d: %w: %q %s", i, err, text, p.err.String())
		}
		refused, allocations = refused+got.Refused, allocations+got.Allocations
	}
	r.note("random operations, processes", processes)
	r.note("allocations granted", float64(allocations))
	r.note("allocations refused", float64(refused))
	if refused == 0 {
		return fmt.Errorf("the cap was never met: %w", errMeasure)
	}
	return settle(r, h, p.name,
		fmt.Sprintf("%d operations of each of %d processes", each, processes))
}

func kills(r *results, h *host) error {
	count := pick(r, 1000, 20)
	p, err := h.start([]string{"--memory", strconv.Itoa(memoryCap) + "B"}, "kills",
		strconv.Itoa(count), "4", "60", filepath.Join(h.driver, "bin", "alloc_storm"), "10000000",
		"64")
	if err != nil {
		return err
	}
	defer p.kill()
	if err := within(10*time.Minute, "all are killed",
		func() bool { return strings.Contains(p.out.String(), "}") }); err != nil {
		return fmt.Errorf("%w: %s", err, p.err.String())
	}
	var got struct{ Kills int }
	if err := json.Unmarshal([]byte(strings.TrimSpace(p.out.String())), &got); err != nil {
		return err
	}
	r.note("processes killed", float64(got.Kills))
	return settle(r, h, p.name, fmt.Sprintf("%d kills", count))
}

// settle compares what the ledgers say of a job whose processes have all ended: the device's own,
// and the job's.
func settle(r *results, h *host, job, after string) error {
	held := uint64(1)
	_ = within(2*time.Second, "the ledger is empty", func() bool {
		jobs, err := h.jobs()
		if j, ok := jobs[job]; err == nil && ok {
			held = j.MemoryUsedBytes
		}
		return held == 0
	})
	// What the driver has not yet back is not gone from the job's.
	l, err := h.ledger()
	if err != nil {
		return err
	}
	r.note("most that the device held after "+after+", of the cap", float64(l.Peak)/memoryCap)
	r.Claims.Check(after+": bytes over the cap at most", max(0, float64(l.Peak)-memoryCap), 0, true)
	r.Claims.Check(after+": bytes that the job's ledger holds at the end", float64(held), 0, true)
	r.Claims.Check(after+": bytes that the device holds at the end", float64(l.Used), 0, true)
	return nil
}

// buffer is output that is read while it is written.
type buffer struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns what has been written so far.
func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
