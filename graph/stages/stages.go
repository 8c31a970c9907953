// Package stages draws the stages of a graph's optimisation as one page. It is apart from package
// graph, whose importers need no pages in their programs.
//
// Meet first: [HTML], which draws a list of [Stage].
//
// Concurrency: drawing shares no state; the graphs are read.
//
// What it refuses: nothing; an error is that of the writer.
package stages

import (
	_ "embed"
	"io"
	"slices"
	"strings"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/page"
)

// Stage is a graph at one point of its optimisation.
type Stage struct {
	Name  string
	Graph *graph.Graph
}

//go:embed page.js
var script string

// HTML writes one self-contained page with the stages side by side, in the brief text form, as Go's
// compiler does with GOSSAFUNC. A stage that is as the one before is folded away. Lines that the
// stage before lacks are marked, and so are lines that the next stage lacks; a click on a value
// marks it in all stages, and a heading folds its stage away.
func HTML(w io.Writer, title string, stages []Stage) error {
	texts := make([][]string, len(stages))
	for i, s := range stages {
		texts[i] = strings.Split(strings.TrimSuffix(s.Graph.String(), "\n"), "\n")
	}
	columns := make([]column, len(stages))
	for i, s := range stages {
		var before, after map[string]bool
		if i > 0 {
			before = lineSet(texts[i-1])
		}
		if i+1 < len(stages) {
			after = lineSet(texts[i+1])
		}
		columns[i] = column{Name: s.Name, Nodes: countNodes(s.Graph),
			Same: i > 0 && slices.Equal(texts[i], texts[i-1])}
		for _, text := range texts[i] {
			columns[i].Lines = append(columns[i].Lines, line{Parts: splitValues(text),
				New: before != nil && !before[text], Gone: after != nil && !after[text]})
		}
	}
	p := page.Page{Title: title, Wide: true, Script: script, Body: func(b *page.Body) {
		body(b, title, columns)
	}}
	return p.Write(w)
}

// body writes what is in the page.
func body(b *page.Body, title string, stages []column) {
	b.Add("<h1>%s</h1>\n", title)
	if len(stages) > 1 {
		b.Add(`<p class="faint"><span class="sign">+</span> the stage before lacks the line; ` +
			`<span class="sign">−</span> the next stage lacks it.</p>` + "\n")
	}
	b.Add(`<main class="stages scrolls" tabindex="0" aria-label="stages">`)
	for _, s := range stages {
		s.body(b)
	}
	b.Add("\n</main>")
}

func (c *column) body(b *page.Body) {
	open, nodes, same := page.HTML(" open"), "nodes", ""
	if c.Nodes == 1 {
		nodes = "node"
	}
	if c.Same {
		open, same = "", ", as before"
	}
	b.Add("\n"+`<details class="stage"%s>`+"\n<summary><h2>%s</h2> <small>%d %s%s</small>"+
		"</summary>\n<div>", open, c.Name, c.Nodes, nodes, same)
	for _, l := range c.Lines {
		b.Add("\n<p%s>", l.class())
		for _, p := range l.Parts {
			if p.Value {
				b.Add("<b>%s</b>", p.Text)
			} else {
				b.Add("%s", p.Text)
			}
		}
		b.Add("</p>")
	}
	b.Add("\n</div>\n</details>")
}

// class says how a line is marked.
func (l *line) class() page.HTML {
	switch {
	case l.New && l.Gone:
		return ` class="new gone"`
	case l.New:
		return ` class="new"`
	case l.Gone:
		return ` class="gone"`
	}
	return ""
}

type column struct {
	Name  string
	Nodes int
	Same  bool // as the stage before
	Lines []line
}

type line struct {
	New, Gone bool
	Parts     []part
}

// part is a piece of a line; Value tells that it names a value.
type part struct {
	Text  string
	Value bool
}

func lineSet(lines []string) map[string]bool {
	m := make(map[string]bool, len(lines))
	for _, l := range lines {
		m[l] = true
	}
	return m
}

func countNodes(g *graph.Graph) int {
	n := 0
	g.Walk(func(g *graph.Graph) { n += len(g.Nodes) })
	return n
}

// splitValues cuts a line of the text form into names of values and what lies between them.
func splitValues(line string) []part {
	var parts []part
	for line != "" {
		i := strings.IndexByte(line, '%')
		if i < 0 {
			return append(parts, part{Text: line})
		}
		if i > 0 {
			parts = append(parts, part{Text: line[:i]})
		}
		end := nameEnd(line, i+1)
		parts = append(parts, part{Text: line[i:end], Value: true})
		line = line[end:]
	}
	return parts
}

// nameEnd is where the name, quoted or not, ends that begins at byte i of a line.
func nameEnd(line string, i int) int {
	if i == len(line) || line[i] != '"' {
		for i < len(line) && isWord(line[i]) {
			i++
		}
		return i
	}
	for i++; i < len(line) && line[i] != '"'; i++ {
		if line[i] == '\\' {
			i++
		}
	}
	return min(i+1, len(line))
}

// isWord reports whether the text form writes a byte of a name without quotes.
func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		strings.IndexByte("_./-+", c) >= 0
}
