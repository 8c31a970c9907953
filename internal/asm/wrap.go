package asm

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Width is the most columns of a line of generated Go, where a tab is as wide as four.
const Width = 100

// Wrap breaks the lines of Go that are longer than Width: a comment between its words, together
// with the rest of its paragraph, and a declaration or a call around what lies in its first
// parentheses. Other lines stay as they are; there must be no such line inside a literal.
func Wrap(source string) string {
	var out []string
	for lines := strings.Split(source, "\n"); len(lines) > 0; {
		line := lines[0]
		n := 1
		switch {
		case columns(line) <= Width:
			out = append(out, line)
		case isProse(line):
			for n < len(lines) && isProse(lines[n]) {
				n++
			}
			out = append(out, fill(lines[:n])...)
		default:
			out = append(out, spread(line)...)
		}
		lines = lines[n:]
	}
	return strings.Join(out, "\n")
}

func columns(line string) int {
	return utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
}

// indent is what a line has before its text.
func indent(line string) string { return line[:len(line)-len(strings.TrimLeft(line, "\t"))] }

// isProse says that a line is of a paragraph of a comment, and neither a directive nor indented in
// the comment, as code and lists are.
func isProse(line string) bool {
	text, ok := strings.CutPrefix(strings.TrimLeft(line, "\t"), "// ")
	return ok && strings.TrimLeft(text, " \t") == text
}

// fill breaks a paragraph of a comment between words.
func fill(lines []string) []string {
	var words []string
	for _, line := range lines {
		words = append(words, strings.Fields(line)[1:]...)
	}
	return pack(indent(lines[0])+"// ", words)
}

// pack puts as many pieces on each line as fit, with a space between them, all after the same
// start.
func pack(start string, pieces []string) []string {
	var lines []string
	for _, piece := range pieces {
		n := len(lines) - 1
		if n >= 0 && columns(lines[n])+1+columns(piece) <= Width {
			lines[n] += " " + piece
		} else {
			lines = append(lines, start+piece)
		}
	}
	return lines
}

// spread puts what lies in the first parentheses of a line on lines of its own, broken after commas
// that are in no further brackets.
func spread(line string) []string {
	open, depth := strings.IndexByte(line, '('), 0
	if open < 0 {
		return []string{line}
	}
	from := open + 1
	var pieces []string
	for i := open; i < len(line); i++ {
		switch line[i] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		}
		if depth == 0 || depth == 1 && line[i] == ',' {
			pieces = append(pieces, strings.TrimSpace(line[from:i])+",")
			from = i + 1
		}
		if depth == 0 {
			start := indent(line)
			return slices.Concat([]string{line[:open+1]}, pack(start+"\t", pieces),
				[]string{start + line[i:]})
		}
	}
	return []string{line}
}
