package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weirgpu/weir/engine/roofline"
)

func TestBenchProfile(t *testing.T) {
	c := done(t, "bench", digitsFile(t), "--runs", "2", "--profile", "--top", "2", "--sort", "loss")
	for _, part := range []string{"median ", "limits measured on", "of limit", "--top 0 prints all",
		"steps, operator\n", "all steps\n"} {
		if !strings.Contains(c.out, part) {
			t.Errorf("%q is missing in %s", part, c.out)
		}
	}
	all := done(t, "bench", digitsFile(t), "--runs", "1", "--profile", "--top", "0", "--sort",
		"order")
	if strings.Contains(all.out, "--top 0") ||
		strings.Count(all.out, "\n") <= strings.Count(c.out, "\n") {
		t.Errorf("all steps are %s", all.out)
	}
	for _, args := range [][]string{{"--sort", "name", "--profile"}, {"--top", "-1", "--profile"},
		{"--html", "x.html"}} {
		if c := weir(
			t,
			append([]string{"bench", digitsFile(t)}, args...)...); c.code != 2 ||
			!strings.Contains(c.talk, args[0]) {
			t.Errorf("%v: exit code %d, %q", args, c.code, c.talk)
		}
	}
}

func TestBenchProfilePage(t *testing.T) {
	page := filepath.Join(t.TempDir(), "roof.html")
	done(t, "bench", digitsFile(t), "--runs", "1", "--profile", "--html", page)
	text, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(text), "Roofline of digits.onnx") ||
		!strings.Contains(string(text), `"of_limit"`) {
		t.Errorf("the page has %d bytes, %v", len(text), err)
	}
}

// TestProfileWidth holds that a table fits 100 columns, whatever the figures and names are.
func TestProfileWidth(t *testing.T) {
	work := roofline.Work{
		MS:         12345.678,
		Share:      1,
		Flops:      1e15,
		Bytes:      1e12,
		GFlopsPerS: 81003.4,
		GBPerS:     8100.2,
		Intensity:  12345.6,
		LeastMS:    12000,
		OfLimit:    1.02,
	}
	table := &roofline.Table{
		Machine: roofline.Machine{Threads: 2, Peak: map[roofline.Format]float64{"fp32": 1}},
		Runs:    3,
		Total:   work,
		Steps: []roofline.Step{
			{
				Node:      strings.Repeat("ä", 300),
				Op:        "ConvTranspose",
				Kernel:    "conv.transpose",
				Work:      work,
				LimitedBy: "compute",
			},
			{},
		},
		Operators: []roofline.Group{{Name: strings.Repeat("x", 300), Steps: 1, Work: work}},
	}
	var b strings.Builder
	(&profileFlags{sort: "time"}).print(&b, table)
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > profileWidth {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// TestNoLimit holds that a step whose limit is not known is not said to be at 0 % of it.
func TestNoLimit(t *testing.T) {
	v := roofline.Work{MS: 2, Share: 1, Flops: 1e6, Bytes: 1e6, GFlopsPerS: 0.5, Intensity: 1}
	line := workLine(&v, "", v.MS)
	if strings.Contains(line, " 0%") || !strings.Contains(line, "      - ") {
		t.Errorf("no limit is known: %q", line)
	}
	v.LeastMS, v.OfLimit = 1, 0.5
	if line := workLine(&v, "memory", v.MS); !strings.Contains(line, "    50%m") {
		t.Errorf("half of a limit: %q", line)
	}
}

func TestBar(t *testing.T) {
	for _, c := range []struct {
		ms, least, longest float64
		want               string
	}{
		{10, 5, 10, "███████░░░░░░░"}, {10, 20, 10, "██████████████"}, {5, 0, 10, "░░░░░░░       "},
		{0, 0, 10, "░             "},
		{0, 0, 0, "              "},
	} {
		if got := bar(c.ms, c.least, c.longest); got != c.want {
			t.Errorf("%g of %g ms, at least %g: %q, want %q", c.ms, c.longest, c.least, got, c.want)
		}
	}
}
