package chart

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Fonts are as large as the unit of a drawing is a pixel; the style sheet says the same.
const (
	fontSize = 12.0
	lineStep = 15.0 // from one line of text to the next
)

// colours is how many colours and how many dashes and markers the style sheet tells apart.
const colours = 8

// Classes returns the classes of series i: its colour and its dashes. Series beyond the eighth have
// pairs of them that no earlier one has, up to 64.
func Classes(i int) string {
	return fmt.Sprintf("c%d d%d", i%colours, shapeOf(i))
}

// shapeOf is which dashes and which marker series i has.
func shapeOf(i int) int { return (i + i/colours) % colours }

// drawing is an SVG in the making.
type drawing struct {
	strings.Builder
	width, height float64
}

// whole returns the drawing as an element. The label is read to those who do not see it.
func (d *drawing) whole(class, label string) string {
	return fmt.Sprintf(
		`<svg class="chart %s" viewBox="0 0 %s %s" role="img" aria-label="%s">%s</svg>`,
		class, num(d.width), num(d.height), html.EscapeString(label), d.String())
}

func num(v float64) string {
	return strconv.FormatFloat(math.Round(10*v)/10, 'f', -1, 64)
}

// line draws a straight line.
func (d *drawing) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(d, `<path class="%s" d="M%s %sL%s %s"/>`, class, num(x1), num(y1), num(x2), num(y2))
}

// text writes a text that is known to fit, at its baseline.
func (d *drawing) text(class string, x, y float64, s string) {
	fmt.Fprintf(d, `<text class="%s" x="%s" y="%s">%s</text>`, class, num(x), num(y),
		html.EscapeString(s))
}

// name writes a text into a width, with the whole of it as its title where it does not fit.
func (d *drawing) name(class string, x, y, width float64, s string) {
	short := fit(s, width)
	title := ""
	if short != s {
		title = "<title>" + html.EscapeString(s) + "</title>"
	}
	fmt.Fprintf(d, `<text class="%s" x="%s" y="%s">%s%s</text>`, class, num(x), num(y),
		html.EscapeString(short), title)
}

// marker draws the marker of a series around a point. The tip is what a pointer over it shows.
func (d *drawing) marker(series int, x, y, r float64, tip string) {
	class := fmt.Sprintf("mark c%d", series%colours)
	at := func(points ...float64) string {
		var b strings.Builder
		for i := 0; i < len(points); i += 2 {
			fmt.Fprintf(&b, "%c%s %s", "ML"[min(i, 1)], num(x+r*points[i]), num(y+r*points[i+1]))
		}
		return b.String() + "Z"
	}
	var path string
	switch shapeOf(series) {
	case 1:
		path = at(-.9, -.9, .9, -.9, .9, .9, -.9, .9)
	case 2:
		path = at(0, -1.2, 1.1, .8, -1.1, .8)
	case 3:
		path = at(0, -1.3, 1.3, 0, 0, 1.3, -1.3, 0)
	case 4:
		path = at(0, 1.2, 1.1, -.8, -1.1, -.8)
	case 5:
		path = at(-.4, -1.2, .4, -1.2, .4, -.4, 1.2, -.4, 1.2, .4, .4, .4, .4, 1.2, -.4, 1.2,
			-.4, .4, -1.2, .4, -1.2, -.4, -.4, -.4)
	case 6:
		path = at(-1.3, -.6, 1.3, -.6, 1.3, .6, -1.3, .6)
	case 7:
		path = at(-.6, -1.3, .6, -1.3, .6, 1.3, -.6, 1.3)
	default:
		fmt.Fprintf(d, `<circle class="%s" cx="%s" cy="%s" r="%s">%s</circle>`, class, num(x),
			num(y), num(r), titleOf(tip))
		return
	}
	fmt.Fprintf(d, `<path class="%s" d="%s">%s</path>`, class, path, titleOf(tip))
}

func titleOf(tip string) string {
	if tip == "" {
		return ""
	}
	return "<title>" + html.EscapeString(tip) + "</title>"
}

// narrowest is the least width of a character, in parts of the size of the font.
const narrowest = 0.6

// textWidth is at least how wide a text is in the fonts that systems have for their interfaces: a
// drawing is made before the font is known.
func textWidth(s string) float64 {
	w := 0.0
	for _, r := range s {
		switch {
		case r >= 0x1100: // where the scripts begin whose signs are as wide as they are high
			w += 1.05
		case strings.ContainsRune("mwMW@%", r):
			w += 0.95
		case r >= 'A' && r <= 'Z':
			w += 0.72
		default:
			w += narrowest
		}
	}
	return w * fontSize
}

// fit shortens a text in the middle to a width: names that are counted differ at their ends.
func fit(s string, width float64) string {
	if textWidth(s) <= width {
		return s
	}
	// of the narrowest characters, more than these never fit
	most := int(width/(narrowest*fontSize)) + 1
	for keep := min(utf8.RuneCountInString(s)-1, most); keep > 1; keep-- {
		if short := Short(s, keep); textWidth(short) <= width {
			return short
		}
	}
	return "…"
}

// Short shortens a text to so many characters by an ellipsis in its middle: names that are counted
// differ at their ends.
func Short(s string, most int) string {
	r := []rune(s)
	if len(r) <= most {
		return s
	}
	head := most / 2
	return string(r[:head]) + "…" + string(r[len(r)-(most-head-1):])
}
