package graph

import (
	"bufio"
	_ "embed"
	"html/template"
	"io"
	"strings"
	"sync"
)

// Stage is a graph at one point of its optimisation.
type Stage struct {
	Name  string
	Graph *Graph
}

//go:embed stages.html
var stagesPage string

var stagesTemplate = sync.OnceValue(
	func() *template.Template { return template.Must(template.New("stages").Parse(stagesPage)) })

// HTML writes one self-contained page with the stages side by side, in the brief text form, as Go's
// compiler does with GOSSAFUNC. Lines that the stage before lacks are marked, and so are lines that
// the next stage lacks; a click on a value marks it in all stages, and a click on a heading folds
// the stage away.
func HTML(w io.Writer, title string, stages []Stage) error {
	texts := make([][]string, len(stages))
	for i, s := range stages {
		texts[i] = strings.Split(strings.TrimSuffix(s.Graph.String(), "\n"), "\n")
	}
	columns := make([]htmlStage, len(stages))
	for i, s := range stages {
		var before, after map[string]bool
		if i > 0 {
			before = lineSet(texts[i-1])
		}
		if i+1 < len(stages) {
			after = lineSet(texts[i+1])
		}
		columns[i] = htmlStage{Name: s.Name, Nodes: countNodes(s.Graph)}
		for _, text := range texts[i] {
			columns[i].Lines = append(columns[i].Lines, htmlLine{Parts: splitValues(text),
				New: before != nil && !before[text], Gone: after != nil && !after[text]})
		}
	}
	b := bufio.NewWriter(w)
	if err := stagesTemplate().Execute(b,
		map[string]any{"Title": title, "Stages": columns}); err != nil {
		return err
	}
	return b.Flush()
}

type htmlStage struct {
	Name  string
	Nodes int
	Lines []htmlLine
}

type htmlLine struct {
	New, Gone bool
	Parts     []htmlPart
}

// htmlPart is a piece of a line; Value tells that it names a value.
type htmlPart struct {
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

func countNodes(g *Graph) int {
	n := 0
	g.Walk(func(g *Graph) { n += len(g.Nodes) })
	return n
}

// splitValues cuts a line of the text form into names of values and what lies between them.
func splitValues(line string) []htmlPart {
	var parts []htmlPart
	for line != "" {
		i := strings.IndexByte(line, '%')
		if i < 0 {
			return append(parts, htmlPart{Text: line})
		}
		if i > 0 {
			parts = append(parts, htmlPart{Text: line[:i]})
		}
		end := nameEnd(line, i+1)
		parts = append(parts, htmlPart{Text: line[i:end], Value: true})
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
