package view

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/internal/terminal"
	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/share"
)

func sample() scenario.Live {
	return scenario.Live{Mode: scenario.Shared, Policy: "fair", Elapsed: 3 * time.Second,
		Window: 8 * time.Second, Jobs: []scenario.LiveJob{
			{Name: "detector", Class: share.Latency, Running: true, Recent: 0.5, Queue: 12,
				Held: 100 << 20, Cap: 512 << 20, Iterations: 90,
				Latency: scenario.Latency{P50: 1.5, P99: 12.25}},
			{Name: "a job with a name that is much too long", Class: share.Opportunistic,
				Recent:     1.3,
				Iterations: 1},
			{Name: "refused", Recent: -1,
				Error: "job refused: needs 4 MiB, cap 1 MiB: raise memory " +
					"or lower the batch, and some more words to be long"},
		}}
}

// draw is the screen after two stages and one look, at a width.
func draw(width int) []string {
	s := screen{stages: []string{"compiling detector", "together, policy fair"}, now: sample(),
		width: width}
	return s.lines()
}

// TestScreenFits holds that no line is wider than the terminal, and that what matters most stays on
// a narrow one.
func TestScreenFits(t *testing.T) {
	for _, width := range []int{20, 40, 60, 80, 100, 200} {
		lines := draw(width)
		for _, line := range lines {
			if w := terminal.Columns(line); w > width {
				t.Errorf("width %d: a line of %d: %q", width, w, line)
			}
		}
		text := strings.Join(lines, "\n")
		if width == 40 && !strings.Contains(text, " 12.2") {
			t.Errorf("a terminal of 40 columns: no p99 in\n%s", text)
		}
		if width < 60 {
			continue
		}
		for _, want := range []string{"done  compiling detector", "together, policy fair",
			"3 of 8 s", "detector", "50 %", "▶", "12", "1.5", "12.2", "a job with a …",
			"needs 4 MiB"} {
			if !strings.Contains(text, want) {
				t.Errorf("width %d: no %q in\n%s", width, want, text)
			}
		}
		if got := strings.Contains(text, "opportunistic"); got != (width >= 96) {
			t.Errorf("width %d: classes are shown: %v", width, got)
		}
		if got := strings.Contains(text, "100 of 512 MiB"); got != (width >= 88) {
			t.Errorf("width %d: memory is shown: %v", width, got)
		}
		if got := strings.Contains(text, "the OS decides"); got != (width >= 70) {
			t.Errorf("width %d: the device is shown: %v", width, got)
		}
	}
}

// TestScreenAligns holds that all columns end where their titles do.
func TestScreenAligns(t *testing.T) {
	lines := (&screen{width: 120, now: sample()}).table()
	for _, i := range []int{1, 2} {
		if got, want := terminal.Columns(lines[i]), terminal.Columns(lines[0]); got != want {
			t.Errorf("line %d is %d wide, the title %d", i, got, want)
		}
	}
}

// TestColors holds that colours change nothing but colours, and are there where they are asked for.
func TestColors(t *testing.T) {
	s := screen{stages: []string{"one", "two"}, now: sample(), width: 80}
	plain := strings.Join(s.lines(), "\n")
	s.color = true
	text := strings.Join(s.lines(), "\n")
	if got := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(text, ""); got != plain {
		t.Errorf("without its colours %q, want %q", got, plain)
	}
	if strings.Contains(plain, "\x1b") || !strings.Contains(text, "\x1b[38;5;39m") {
		t.Errorf("colours in %q, or none in %q", plain, text)
	}
}

func TestStageForgetsTheLastLook(t *testing.T) {
	var b strings.Builder
	v := &live{w: &b}
	v.Live(sample())
	b.Reset()
	v.Stage("next")
	if text := b.String(); strings.Contains(text, "detector") || !strings.Contains(text, "next") {
		t.Errorf("got %q", text)
	}
}

func TestPlain(t *testing.T) {
	var b bytes.Buffer
	v := New(&b)
	v.Stage("together, policy fair")
	for ms := 0; ms <= 4500; ms += 200 {
		l := sample()
		l.Elapsed = time.Duration(ms) * time.Millisecond
		v.Live(l)
	}
	v.Close()
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 3 || lines[0] != "together, policy fair" ||
		!strings.Contains(lines[1], "2 s") || !strings.Contains(lines[2], "4 s") {
		t.Fatalf("got %q", lines)
	}
	if !strings.Contains(lines[1], "detector 50 % p50 1.5 p99 12.2 ms queue 12") ||
		!strings.Contains(lines[1], "refused p50") {
		t.Errorf("got %q", lines[1])
	}
}

// TestPlace: both views say at which place a job waits, the one with room for it for what.
func TestPlace(t *testing.T) {
	now := scenario.Live{Elapsed: time.Minute, Jobs: []scenario.LiveJob{
		{Name: "runs"}, {Name: "next", Place: 2, Waits: "job next: waits behind job big"}}}
	s := screen{stages: []string{"together"}, now: now, width: 80}
	if got := strings.Join(s.lines(), "\n"); strings.Count(got, "waits at place") != 1 ||
		!strings.Contains(got, "\n  waits at place 2: job next: waits behind job big") {
		t.Errorf("the screen is\n%s", got)
	}
	var b bytes.Buffer
	v := New(&b)
	v.Live(now)
	if got := b.String(); !strings.Contains(got, "  next waits at place 2\n") {
		t.Errorf("the line is %q", got)
	}
}
