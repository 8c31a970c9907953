package page

import (
	"fmt"
	"html"
	"strings"

	"github.com/weirgpu/weir/internal/chart"
)

// HTML is markup that is written as it is.
type HTML string

// Body is the body of a page while it is written.
type Body struct{ text strings.Builder }

// Add adds markup in a format of fmt. Strings among what it is filled with are texts, and cannot
// become markup, also within an attribute's quotes; only [HTML] can.
func (b *Body) Add(format string, with ...any) {
	safe := make([]any, len(with))
	for i, v := range with {
		switch v := v.(type) {
		case HTML:
			safe[i] = string(v)
		case int, float64:
			safe[i] = v
		default:
			safe[i] = html.EscapeString(strings.ReplaceAll(fmt.Sprint(v), "\x00", "\uFFFD"))
		}
	}
	fmt.Fprintf(&b.text, format, safe...)
}

// Name adds a name that may be long.
func (b *Body) Name(name string) {
	short := chart.Short(name, NameLength)
	if short == name {
		b.Add("%s", name)
		return
	}
	b.Add(`<span class="short" title="%s">%s</span><span class="long">%s</span>`, name, short, name)
}

// Fold adds a part that is folded away until a click, or open at first, with what says what is in
// it and a note behind that, "" for none.
func (b *Body) Fold(open bool, summary, note string, inside func()) {
	b.Add("<details")
	if open {
		b.Add(" open")
	}
	b.Add("><summary>%s", summary)
	if note != "" {
		b.Add(" <small>%s</small>", note)
	}
	b.Add("</summary>")
	inside()
	b.Add("</details>\n")
}

// Table adds a table, without the columns in which no row says anything.
func (b *Body) Table(t Table) {
	quiet, left := "", map[bool]HTML{true: ` class="left"`}
	if t.Quiet {
		quiet = ` class="unseen"`
	}
	b.Add(`<table class="cards"><caption%s>%s</caption>`+"\n<thead><tr>", HTML(quiet), t.Caption)
	t = t.shown()
	for i, h := range t.Heads {
		b.Add(`<th scope="col"%s>%s</th>`, left[i <= t.Left], h)
	}
	b.Add("</tr></thead>\n<tbody>")
	for _, r := range t.Rows {
		b.Add(`<tr><th scope="row">`)
		b.Name(r.Name)
		b.Add("</th>")
		if r.Bad != "" {
			b.Add(`<td class="bad left" colspan="%d">%s</td>`, max(1, len(t.Heads)-1), r.Bad)
		} else {
			for i, c := range r.Cells {
				b.Add(`<td%s data-label="%s">%s</td>`, left[i < t.Left], t.Heads[i+1], c)
			}
		}
		b.Add("</tr>\n")
	}
	b.Add("</tbody></table>")
}
