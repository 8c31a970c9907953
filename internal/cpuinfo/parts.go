package cpuinfo

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
)

// arm is the number of Arm Limited among those who make processors (MIDR_EL1, Implementer).
const arm = "0x41"

// armParts are the names of Arm's own cores by their part numbers, of their Technical Reference
// Manuals (MIDR_EL1, PartNum).
var armParts = []struct{ part, name string }{
	{"0xd03", "Cortex-A53"},
	{"0xd05", "Cortex-A55"},
	{"0xd07", "Cortex-A57"},
	{"0xd08", "Cortex-A72"},
	{"0xd09", "Cortex-A73"},
	{"0xd0a", "Cortex-A75"},
	{"0xd0b", "Cortex-A76"},
	{"0xd0c", "Neoverse-N1"},
	{"0xd0d", "Cortex-A77"},
	{"0xd40", "Neoverse-V1"},
	{"0xd41", "Cortex-A78"},
	{"0xd44", "Cortex-X1"},
	{"0xd46", "Cortex-A510"},
	{"0xd47", "Cortex-A710"},
	{"0xd48", "Cortex-X2"},
	{"0xd49", "Neoverse-N2"},
	{"0xd4d", "Cortex-A715"},
	{"0xd4e", "Cortex-X3"},
	{"0xd4f", "Neoverse-V2"},
	{"0xd80", "Cortex-A520"},
	{"0xd81", "Cortex-A720"},
	{"0xd82", "Cortex-X4"},
	{"0xd84", "Neoverse-V3"},
	{"0xd8e", "Neoverse-N3"},
}

// parseParts names the kinds of cores in proc_pid(5)'s /proc/cpuinfo as Linux has it on arm64,
// which tells makers and parts by numbers and of each processor apart: each kind once, in the order
// of the processors, as in "Cortex-A55 + Cortex-A76".
func parseParts(r io.Reader) string {
	var names []string
	maker := ""
	lines := bufio.NewScanner(io.LimitReader(r, 1<<20))
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "CPU implementer":
			maker = value
		case "CPU part":
			if name := partName(maker, value); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return strings.Join(names, " + ")
}

// partName is the name of a core, or its numbers where it is none of Arm's own that is known.
func partName(maker, part string) string {
	for _, p := range armParts {
		if maker == arm && p.part == part {
			return p.name
		}
	}
	return fmt.Sprintf("arm64 of maker %s, part %s", maker, part)
}
