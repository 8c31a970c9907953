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
type model struct {
	mc, mca, version string
	known            map[string]float64 // what was asked before, by processor and instruction
}

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
			return &model{mc, mca, string(found[0]), map[string]float64{}}, nil
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
	out, err := run(hex.String(), m.mc, "--disassemble", "--triple=aarch64", "--mattr=+all")
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

var (
	total = regexp.MustCompile(`Total Cycles:\s+(\d+)`)
	least = regexp.MustCompile(`Block RThroughput:\s+([\d.]+)`)
	// each is how long each unit was busy a round.
	each = regexp.MustCompile(`Resource pressure per iteration:\n.*\n(.*)\n`)
	// queue is how full the instructions that wait for units kept a queue: its name, the average,
	// the most of them and what it holds.
	queue = regexp.MustCompile(`(?m)^(\S+)\s+(\d+)\s+(\d+)\s+(\d+)\s*$`)
	// window is the same of the instructions that have begun and have not retired.
	window = regexp.MustCompile(`Total ROB Entries:\s+(\d+)\n.*\n` +
		`Average Used ROB Entries per cy:\s+\d+\s+\( ([\d.]+)% \)`)
)

// use is how many cycles a round of a loop takes, how many of them the busiest of its units and
// decoders was busy, and which queue was the fullest. Of units that can run an instruction the
// model picks one without looking ahead, so that units alike may be busy unlike. A full queue is
// that of what waits for a unit or an operand, or that of all instructions under way: then it takes
// longer chains apart, or nothing, to be faster.
type use struct {
	cycles, units float64
	full          float64 // the share of its places that the fullest queue used on the average
	queue         string  // its name and how many it holds
}

// limit is the cycles of the busiest unit, or those that the fullest queue was full.
func (u use) limit() float64 { return max(u.units, u.cycles*u.full) }

// fuller takes a queue that is fuller than those before.
func (u *use) fuller(name, holds string, full float64) {
	if full > u.full {
		u.full, u.queue = full, fmt.Sprintf("%s of %s", name, holds)
	}
}

// cycles is the use of a loop.
func (m *model) cycles(cpu, text string) (u use, err error) {
	rounds := max(leastRounds, min(mostRounds, longRun/strings.Count(text, "\n")))
	out, err := run(text, m.mca, "-mtriple=aarch64", "-mcpu="+cpu, "-scheduler-stats",
		"-retire-stats", "-iterations="+strconv.Itoa(rounds))
	if err != nil {
		return u, err
	}
	all, decoded, busy := total.FindStringSubmatch(out), least.FindStringSubmatch(out),
		each.FindStringSubmatch(out)
	if all == nil || decoded == nil || busy == nil {
		return u, fmt.Errorf("llvm-mca says no cycles for %s", cpu)
	}
	n, e1 := strconv.ParseFloat(all[1], 64)
	units, e2 := strconv.ParseFloat(decoded[1], 64)
	u.cycles, u.units = n/float64(rounds), units
	for _, word := range strings.Fields(busy[1]) {
		if of, err := strconv.ParseFloat(word, 64); err == nil { // and not a dash, which is none
			u.units = max(u.units, of)
		}
	}
	u.queues(out)
	return u, errors.Join(e1, e2)
}

// queues finds the fullest queue in what llvm-mca says.
func (u *use) queues(out string) {
	for _, q := range queue.FindAllStringSubmatch(out, -1) {
		used, e1 := strconv.ParseFloat(q[2], 64)
		holds, e2 := strconv.ParseFloat(q[4], 64)
		if errors.Join(e1, e2) == nil && holds > 0 {
			u.fuller("queue "+q[1], q[4], used/holds)
		}
	}
	if w := window.FindStringSubmatch(out); w != nil {
		if percent, err := strconv.ParseFloat(w[2], 64); err == nil {
			u.fuller("window", w[1], percent/100)
		}
	}
}

// multiply is how many cycles a multiplication takes at least, among many that wait for none: the
// instruction with the name of one that loops have.
func (m *model) multiply(cpu, name string) (float64, error) {
	operands, ok := map[string]string{"sdot": "v%d.4s, v30.16b, v31.4b[0]",
		"udot": "v%d.4s, v30.16b, v31.4b[0]", "usmmla": "v%d.4s, v30.16b, v31.16b",
		"bfmmla": "v%d.4s, v30.8h, v31.8h"}[name]
	if !ok { // floats, one as long as another
		name, operands = "fmla", "v%d.4s, v30.4s, v31.s[0]"
	}
	const n = 24
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, name+" "+operands+"\n", i)
	}
	c, err := m.once(cpu, text.String())
	return c / n, err
}

// latency is how many cycles an instruction takes, as its neighbours do, that waits for the one
// before it.
func (m *model) latency(cpu, text string) (float64, error) {
	const n = 8
	c, err := m.once(cpu, strings.Repeat(text+"\n", n))
	return c / n, err
}

// once is the cycles of a text, which is asked for one time.
func (m *model) once(cpu, text string) (float64, error) {
	key := cpu + " " + text
	if c, ok := m.known[key]; ok {
		return c, nil
	}
	u, err := m.cycles(cpu, text)
	m.known[key] = u.cycles
	return u.cycles, err
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
