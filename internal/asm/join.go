package asm

import "strings"

// Join puts instructions that follow each other on one line, as many as [Width] has room for. Every
// program has a table of the line of each of its instructions, which takes two bytes where the line
// is another than before: for kernels, of hundreds of lines each, a third of what they take
// themselves.
//
// Alone on their lines stay labels, directives, what has a comment, and what names a parameter or
// returns: go vet looks for these, and reads the first instruction of a line only.
func Join(text string) string {
	var out strings.Builder
	line := ""
	end := func() {
		if line != "" {
			out.WriteString("\t" + line + "\n")
		}
		line = ""
	}
	for l := range strings.Lines(text) {
		instruction, ok := joins(l)
		if !ok {
			end()
			out.WriteString(l)
			continue
		}
		if line != "" && columns("\t"+line+"; "+instruction) > Width {
			end()
		}
		if line != "" {
			line += "; "
		}
		line += instruction
	}
	end()
	return out.String()
}

// joins returns the instruction of a line that may share its line.
func joins(line string) (string, bool) {
	l, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "\t")
	if !ok || l == "" || !strings.HasSuffix(line, "\n") {
		return "", false
	}
	for _, alone := range []string{"(FP)", "//", "#", ":", "\t", "\\"} {
		if strings.Contains(l, alone) {
			return "", false
		}
	}
	switch name, _, _ := strings.Cut(l, " "); name {
	case "RET", "NO_LOCAL_POINTERS", "FUNCDATA", "PCDATA", "PCALIGN", "CALL":
		return "", false
	}
	return l, true
}
