package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/weirgpu/weir/internal/roofline"
	"github.com/weirgpu/weir/internal/terminal"
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
	old := linked(t, page)
	done(t, "bench", digitsFile(t), "--runs", "1", "--profile", "--html", page)
	text, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(text), "Roofline of digits.onnx") ||
		!strings.Contains(string(text), `data-label="of limit"`) {
		t.Errorf("the page has %d bytes, %v", len(text), err)
	}
	old()
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
	for _, width := range []int{40, 68, 80, 90, 100} {
		t.Setenv("COLUMNS", strconv.Itoa(width))
		var b strings.Builder
		(&profileFlags{sort: "time"}).print(&b, table)
		for line := range strings.Lines(b.String()) {
			if n := terminal.Columns(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("%d columns of %d: %s", n, width, line)
			}
		}
	}
}

// TestNoLimit holds that a step whose limit is not known is not said to be at 0 % of it.
func TestNoLimit(t *testing.T) {
	v := roofline.Work{MS: 2, Share: 1, Flops: 1e6, Bytes: 1e6, GFlopsPerS: 0.5, Intensity: 1}
	wide := layoutFor(100)
	line := wide.work(&v, "", v.MS)
	if strings.Contains(line, " 0%") || !strings.Contains(line, "      - ") {
		t.Errorf("no limit is known: %q", line)
	}
	v.LeastMS, v.OfLimit = 1, 0.5
	if line := wide.work(&v, "memory", v.MS); !strings.Contains(line, "    50%m") {
		t.Errorf("half of a limit: %q", line)
	}
}

func TestBar(t *testing.T) {
	wide := layoutFor(100)
	for _, c := range []struct {
		ms, least, longest float64
		want               string
	}{
		{10, 5, 10, "███████░░░░░░░"}, {10, 20, 10, "██████████████"}, {5, 0, 10, "░░░░░░░       "},
		{0, 0, 10, "░             "},
		{0, 0, 0, "              "},
	} {
		if got := wide.bar(c.ms, c.least, c.longest); got != c.want {
			t.Errorf("%g of %g ms, at least %g: %q, want %q", c.ms, c.longest, c.least, got, c.want)
		}
	}
}
