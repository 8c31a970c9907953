package main

import (
	"regexp"
	"strings"
)

// limit is how many cycles a round of a loop takes at least on a processor: what its units take, or
// what the additions to one register take, which wait for each other from round to round.
func (m *model) limit(cpu, text string, units float64) (float64, error) {
	most := units
	for _, c := range carried(text) {
		each, err := m.latency(cpu, c.one)
		if err != nil {
			return 0, err
		}
		most = max(most, each*float64(c.times))
	}
	return most, nil
}

// chain is what a round does to a register that it takes from the round before: so many times one
// instruction.
type chain struct {
	one   string
	times int
}

var (
	// operand is a vector register in any of its names.
	operand = regexp.MustCompile(`\b[vqds](\d+)\b`)
	// adding are instructions that change the register that they write.
	adding = regexp.MustCompile(`^(fml[as]|[su]dot|usmmla|bfmmla|bi[tf]|bsl)\s`)
)

// carried returns the longest of a loop's chains of each instruction. A register that is written
// anew in the loop carries nothing.
func carried(text string) map[string]chain {
	anew, of := map[string]bool{}, map[string]chain{}
	for line := range strings.Lines(text) {
		name, _, _ := strings.Cut(line, "\t")
		regs := operand.FindAllStringSubmatch(line, -1)
		if len(regs) == 0 || strings.HasPrefix(name, "st") {
			continue
		}
		d := regs[0][1]
		reads := adding.MatchString(line)
		for _, r := range regs[1:] {
			reads = reads || r[1] == d && !strings.HasPrefix(name, "ld")
		}
		if !reads {
			for _, r := range regs[:written(name)] {
				anew[r[1]] = true
			}
			continue
		}
		of[d] = chain{strings.TrimSpace(line), of[d].times + 1}
	}
	longest := map[string]chain{}
	for d, c := range of {
		name, _, _ := strings.Cut(c.one, "\t")
		if !anew[d] && c.times > longest[name].times {
			longest[name] = c
		}
	}
	return longest
}

// written is how many registers an instruction writes.
func written(name string) int {
	if name == "ldp" {
		return 2
	}
	return 1
}
