package main

import (
	"strings"
	"testing"
	"unicode"

	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/internal/terminal"
	"github.com/weirgpu/weir/server/audit"
)

// TestTableWidths holds that a table on a narrow terminal loses no figure and breaks none.
func TestTableWidths(t *testing.T) {
	rows := table{{"", "class", "device", "p50 ms", "p99 ms", "memory"},
		{"weir, policy priority: total throughput 0.97 of alone"},
		{"  detector", "latency", "50 %", "123.4", "567.8", "12.5 MiB"},
		{"  a job whose name is longer than half of any line", "opportunistic", "13 %", "9.01",
			"22.7", "1025 MiB"}}
	for _, columns := range []string{"40", "80", "130", ""} {
		t.Setenv("COLUMNS", columns)
		var b strings.Builder
		rows.print(&b)
		most := terminal.Width(&b)
		for line := range strings.Lines(b.String()) {
			if n := terminal.Columns(strings.TrimSuffix(line, "\n")); most > 0 && n > most {
				t.Errorf("%s columns: a line of %d: %q", columns, n, line)
			}
		}
		for _, cell := range []string{"detector", "opportunistic", "50 %", "123.4", "567.8",
			"12.5 MiB", "13 %", "9.01", "22.7", "1025 MiB"} {
			if !strings.Contains(b.String(), cell) {
				t.Errorf("%s columns: no %q in\n%s", columns, cell, b.String())
			}
		}
		blocks := strings.Count(b.String(), "\n\n") + 1
		if want := map[string]int{"40": 2, "80": 1, "130": 1, "": 1}[columns]; blocks != want {
			t.Errorf("%s columns: %d blocks, want %d\n%s", columns, blocks, want, b.String())
		}
	}
}

// TestAuditIsPlain: what a client asked for, which it names as it likes, writes nothing on the
// terminal of who reads the audit but its own cell.
func TestAuditIsPlain(t *testing.T) {
	var b strings.Builder
	printRecords(&b, []audit.Record{{Seq: 7, Event: audit.Event{Who: "eve", What: "infer",
		Model: "m\x1b[2J\x1b]0;x\a", About: "a\n8  now  ann  policy change", Result: audit.Refused},
		Count: 1}})
	got := b.String()
	if strings.ContainsFunc(strings.ReplaceAll(got, "\n", ""), unicode.IsControl) ||
		strings.Count(got, "\n") != 2 || !strings.Contains(got, `m\x1b[2J`) {
		t.Errorf("got %q", got)
	}
}

// TestTopWidths holds that top fits terminals, with every figure whole.
func TestTopWidths(t *testing.T) {
	s := agent.Snapshot{Policy: "priority", Devices: []agent.DeviceSnapshot{{Device: "cuda:0",
		Name: "NVIDIA H100 80GB HBM3", MemoryBytes: 80 << 30, PromisedBytes: 24 << 30,
		Unmeasured: "the management library does not answer, since 10:00",
		Jobs: []agent.JobSnapshot{{State: "waiting", WaitingMS: 1234, MemoryCapBytes: 24 << 30,
			MemoryUsedBytes: 12345 << 20, Launches: 1234567890,
			Processes: []agent.ProcessSnapshot{{PID: 4194304}, {PID: 4194303}}}}}}}
	s.Devices[0].Jobs[0].Name = "fine-tuning-of-a-large-model"
	for _, width := range []int{40, 80, 130} {
		text := topText(&s, width)
		for line := range strings.Lines(text) {
			if n := terminal.Columns(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d columns: a line of %d: %q", width, n, line)
			}
		}
		for _, want := range []string{"1234567890", "12.1 GiB", "24 GiB", "waiting 1234 ms",
			"4194304 4194303"} {
			if !strings.Contains(text, want) {
				t.Errorf("%d columns: no %q in\n%s", width, want, text)
			}
		}
		const why = "not measured: the management library does not answer, since 10:00"
		if !strings.Contains(strings.Join(strings.Fields(text), " "), why) {
			t.Errorf("%d columns: no %q in\n%s", width, why, text)
		}
	}
	s.Devices[0].Unmeasured = ""
	if text := topText(&s, 0); strings.Contains(text, "measured") {
		t.Errorf("a device that is measured:\n%s", text)
	}
}

// TestTableInASCII holds that a locale without other characters gets none.
func TestTableInASCII(t *testing.T) {
	t.Setenv("LC_ALL", "C")
	t.Setenv("COLUMNS", "40")
	var b strings.Builder
	table{{"a", "b"}, {strings.Repeat("long name ", 9), "1 µs"}}.print(&b)
	if i := strings.IndexFunc(b.String(), func(r rune) bool { return r > 127 }); i >= 0 {
		t.Errorf("byte %d of %q", i, b.String())
	}
}

// TestThreadsOfEnvironment holds that GOMAXPROCS bounds what a command keeps busy, and a flag goes
// before it.
func TestThreadsOfEnvironment(t *testing.T) {
	model := digitsFile(t)
	for _, c := range []struct {
		variable string
		flags    []string
		want     float64
	}{{"1", nil, 1}, {"1", []string{"--threads", "2"}, 2}} {
		t.Setenv("GOMAXPROCS", c.variable)
		args := []string{"bench", model, "--runs", "1", "--warmup", "0", "--json"}
		if got := done(t, append(args, c.flags...)...).object(t)["threads"]; got != c.want {
			t.Errorf("GOMAXPROCS=%s, %v: %v threads, want %v", c.variable, c.flags, got, c.want)
		}
	}
}
