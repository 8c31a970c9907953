package main

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// model runs instructions on LLVM's models of processors.
type model struct{ mc, mca, version string }

// A loop is run so many rounds, as come to about that many instructions, so that its beginning does
// not count.
const (
	mostRounds  = 400
	leastRounds = 60
	longRun     = 24_000
)

// errTools says what is missing.
var errTools = errors.New("no llvm-mc and llvm-mca of LLVM 16 or later (Debian: llvm-19)")

// newModel finds the tools: those of a version that knows all processors.
func newModel() (*model, error) {
	for _, suffix := range []string{"", "-21", "-20", "-19", "-18", "-17", "-16"} {
		mc, e1 := exec.LookPath("llvm-mc" + suffix)
		mca, e2 := exec.LookPath("llvm-mca" + suffix)
		if e1 != nil || e2 != nil {
			continue
		}
		out, err := exec.Command(mca, "--version").Output()
		if err != nil {
			return nil, err
		}
		found := regexp.MustCompile(`LLVM version (\d+)\S*`).FindSubmatch(out)
		if found == nil {
			continue
		}
		if major, _ := strconv.Atoi(string(found[1])); major >= 16 {
			return &model{mc, mca, string(found[0])}, nil
		}
	}
	return nil, errTools
}

// disassemble returns the instructions of words, one a line.
func (m *model) disassemble(words []uint32) ([]string, error) {
	var hex strings.Builder
	for _, w := range words {
		fmt.Fprintf(&hex, "0x%02x 0x%02x 0x%02x 0x%02x\n", byte(w), byte(w>>8), byte(w>>16),
			byte(w>>24))
	}
	out, err := run(hex.String(), m.mc, "--disassemble", "--triple=aarch64")
	if err != nil {
		return nil, err
	}
	var lines []string
	for line := range strings.Lines(out) {
		if s := strings.TrimSpace(line); s != "" && !strings.HasPrefix(s, ".") {
			lines = append(lines, s)
		}
	}
	if len(lines) != len(words) {
		return nil, fmt.Errorf("%d words are %d instructions to llvm-mc", len(words), len(lines))
	}
	return lines, nil
}

var total = regexp.MustCompile(`Total Cycles:\s+(\d+)`)

// cycles is how many cycles a round of a loop takes.
func (m *model) cycles(cpu, text string) (float64, error) {
	rounds := max(leastRounds, min(mostRounds, longRun/strings.Count(text, "\n")))
	out, err := run(text, m.mca, "-mtriple=aarch64", "-mcpu="+cpu, "-iterations="+
		strconv.Itoa(rounds))
	if err != nil {
		return 0, err
	}
	found := total.FindStringSubmatch(out)
	if found == nil {
		return 0, fmt.Errorf("llvm-mca says no cycles for %s", cpu)
	}
	n, err := strconv.Atoi(found[1])
	return float64(n) / float64(rounds), err
}

// multiply is how many cycles a multiplication takes at least, among many that wait for none.
func (m *model) multiply(cpu string) (float64, error) {
	const n = 24
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "fmla v%d.4s, v30.4s, v31.s[0]\n", i)
	}
	c, err := m.cycles(cpu, text.String())
	return c / n, err
}

// run runs a tool on what it reads.
func run(input, tool string, args ...string) (string, error) {
	cmd := exec.Command(tool, args...)
	var errs bytes.Buffer
	cmd.Stdin, cmd.Stderr = strings.NewReader(input), &errs
	out, err := cmd.Output()
	if err == nil && errs.Len() > 0 { // such as of a processor that it does not know
		err = errors.New("it warns")
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", tool, err, strings.TrimSpace(errs.String()))
	}
	return string(out), nil
}
