package chart

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirgpu/weir/internal/sorting"
)

// XY is a chart of lines and points over two axes.
type XY struct {
	Label  string // what the chart shows, for those who do not see it
	X, Y   Axis
	Height float64 // of the plot, without what is written around it
	Series []Series
}

// Series is a line or points, named at its end or beside each point.
type Series struct {
	Name   string
	Style  int // see Classes
	X, Y   []float64
	Points bool      // markers in place of a line
	Steps  bool      // a line that is level until its next point
	Faint  bool      // a line that only gives a limit: thin, in dots
	Starts bool      // a line that is named at its start, not at its end
	Sizes  []float64 // of markers, the radius; nil for all alike
	Tips   []string  // of markers
	Names  []string  // of markers, written beside each, "" for no name; nil for none
}

// point is a place in a drawing.
type point struct{ x, y float64 }

// label is a name that is to be placed beside its point.
type label struct {
	at    point
	style int
	name  string
	faint bool
	y     float64 // of its middle
}

// plot is the rectangle that the axes span, and what is written in it.
type plot struct {
	drawing
	x, y                     Axis
	left, right, top, bottom float64
}

// SVG draws the chart at a width. The class is set on its element.
func (c *XY) SVG(class string, width float64) string {
	p := plot{x: c.X.span(), y: c.Y.span(), top: 2 * lineStep}
	p.width = width
	p.bottom = p.top + c.Height
	p.height = p.bottom + 2.6*lineStep
	yTicks := p.y.ticks(max(2, int(c.Height/32)))
	p.left = 8
	for _, t := range yTicks {
		p.left = max(p.left, textWidth(t.Text)+10)
	}
	p.right = width - min(c.namesWidth(), width*0.3) - 12
	p.axes(yTicks)
	var labels []label
	var taken []box
	marks := p.marks(c.Series)
	for i := range c.Series {
		s := &c.Series[i]
		if s.Points {
			p.markers(s)
		} else if end, ok := p.curve(s); ok && s.Starts {
			taken = append(taken, p.atStart(s, taken, marks))
		} else if ok {
			labels = append(labels, label{at: end, style: s.Style, name: s.Name, faint: s.Faint})
		}
	}
	p.beside(c.Series, append(taken, p.atEnds(labels)...))
	return p.whole(class, c.Label)
}

// namesWidth is what the names at the ends of lines take.
func (c *XY) namesWidth() float64 {
	w := 0.0
	for i := range c.Series {
		if !c.Series[i].Points && !c.Series[i].Starts {
			w = max(w, textWidth(c.Series[i].Name)+12)
		}
	}
	return w
}

// axes draws the grid, the ticks and what the axes are called.
func (p *plot) axes(yTicks []Tick) {
	for _, t := range yTicks {
		if at, ok := p.y.place(t.At); ok {
			y := p.bottom - at*(p.bottom-p.top)
			p.line("grid", p.left, y, p.right, y)
			p.text("tick end", p.left-6, y+4, t.Text)
		}
	}
	p.text("axis", 0, lineStep-3, p.y.Label)
	p.xAxis()
}

// xAxis draws the ticks below the plot: those whose texts do not touch.
func (p *plot) xAxis() {
	p.line("base", p.left, p.bottom, p.right, p.bottom)
	ticks := p.x.ticks(max(2, int((p.right-p.left)/64)))
	free := math.Inf(-1)
	for _, t := range ticks {
		at, ok := p.x.place(t.At)
		if !ok || at > 1+1e-9 {
			continue
		}
		x, half := p.left+at*(p.right-p.left), textWidth(t.Text)/2
		p.line("base", x, p.bottom, x, p.bottom+4)
		if x-half > free && x+half <= p.width {
			p.text("tick mid", x, p.bottom+4+lineStep-2, t.Text)
			free = x + half + 6
		}
	}
	p.text("axis end", p.right, p.bottom+2.4*lineStep, p.x.Label)
}

// at returns where a point of the data lies.
func (p *plot) at(x, y float64) (point, bool) {
	u, okX := p.x.place(x)
	v, okY := p.y.place(y)
	return point{p.left + u*(p.right-p.left), p.bottom - v*(p.bottom-p.top)}, okX && okY
}

// curve draws a line and returns its last point.
func (p *plot) curve(s *Series) (last point, ok bool) {
	var path strings.Builder
	for i := range s.X {
		next, has := p.at(s.X[i], s.Y[i])
		if !has {
			continue
		}
		switch {
		case !ok:
			fmt.Fprintf(&path, "M%s %s", num(next.x), num(next.y))
		case s.Steps:
			fmt.Fprintf(&path, "H%sV%s", num(next.x), num(next.y))
		default:
			fmt.Fprintf(&path, "L%s %s", num(next.x), num(next.y))
		}
		last, ok = next, true
	}
	if ok {
		class := "line " + Classes(s.Style)
		if s.Faint {
			class = fmt.Sprintf("limit c%d", s.Style%colours)
		}
		fmt.Fprintf(p, `<path class="%s" d="%s">%s</path>`, class, path.String(), titleOf(s.Name))
	}
	return last, ok
}

// markers draws the points of a series.
func (p *plot) markers(s *Series) {
	for i := range s.X {
		at, ok := p.at(s.X[i], s.Y[i])
		if !ok {
			continue
		}
		tip := ""
		if s.Tips != nil {
			tip = s.Tips[i]
		}
		p.marker(s.Style, at.x, at.y, s.radius(i), tip)
	}
}

// marks returns where the markers of all series lie.
func (p *plot) marks(series []Series) (all []box) {
	for i := range series {
		s := &series[i]
		for k := 0; s.Points && k < len(s.X); k++ {
			if at, ok := p.at(s.X[k], s.Y[k]); ok {
				r := s.radius(k)
				all = append(all, box{at.x - r, at.y - r, at.x + r, at.y + r})
			}
		}
	}
	return all
}

// radius returns how large marker i is.
func (s *Series) radius(i int) float64 {
	if s.Sizes == nil {
		return 5
	}
	return s.Sizes[i]
}

// atEnds writes the names of lines right of the plot, at the heights of their ends, moved apart
// where they would touch, and above the ticks, the last of which may reach below them.
// It returns where they lie.
func (p *plot) atEnds(labels []label) []box {
	sorting.By(labels, func(a, b label) int { return cmp.Compare(a.at.y, b.at.y) })
	free := lineStep / 2
	for i := range labels {
		labels[i].y = max(labels[i].at.y, free)
		free = labels[i].y + lineStep
	}
	free = p.bottom - 3
	for i := len(labels) - 1; i >= 0; i-- {
		labels[i].y = min(labels[i].y, free)
		free = labels[i].y - lineStep
	}
	var taken []box
	for _, l := range labels {
		class := fmt.Sprintf("c%d", l.style%colours)
		fmt.Fprintf(p, `<path class="lead %s" d="M%s %sL%s %s"/>`, class, num(l.at.x),
			num(l.at.y), num(p.right+8), num(l.y))
		if l.faint {
			class += " small"
		}
		p.name("named "+class, p.right+11, l.y+4, p.width-p.right-11, l.name)
		taken = append(taken, box{p.right + 11, l.y - lineStep/2, p.width, l.y + lineStep/2})
	}
	return taken
}

// atStart writes the name of a line right of its start, below it where it rises and below what is
// taken, and returns where. It keeps clear of markers, too, where the plot has room for that.
func (p *plot) atStart(s *Series, taken, marks []box) box {
	at, _ := p.at(s.X[0], s.Y[0])
	name := fit(s.Name, (p.right-p.left)*0.6)
	b := box{at.x + 16, at.y - 10, at.x + 16 + textWidth(name), at.y + 5}
	below := func(b box, what []box) box {
		for slices.ContainsFunc(what, b.touches) {
			b.top, b.bottom = b.top+4, b.bottom+4
		}
		return b
	}
	if clear := below(b, slices.Concat(taken, marks)); clear.bottom <= p.bottom {
		b = clear
	} else {
		b = below(b, taken)
	}
	p.text(fmt.Sprintf("named small c%d", s.Style%colours), b.left, b.bottom-4, name)
	return b
}

// beside writes the names of points beside them: where it fits first of right, left, above and
// below, else right of them, further down or up.
func (p *plot) beside(series []Series, taken []box) {
	taken = append(taken, p.namedMarks(series)...)
	for i := range series {
		for k := range series[i].Names {
			at, ok := p.at(series[i].X[k], series[i].Y[k])
			if ok && series[i].Names[k] != "" {
				r := series[i].radius(k)
				taken = append(taken, box{at.x - r, at.y - r, at.x + r, at.y + r})
			}
		}
	}
	for i := range series {
		s := &series[i]
		for k, name := range s.Names {
			at, ok := p.at(s.X[k], s.Y[k])
			if !ok || name == "" {
				continue
			}
			name = fit(name, p.width/3)
			where := p.free(at, s.radius(k), textWidth(name), taken)
			taken = append(taken, where)
			if where.top > at.y+lineStep {
				p.line("lead "+Classes(s.Style), at.x, at.y, where.left, where.top+lineStep/2)
			}
			p.text(fmt.Sprintf("named c%d", s.Style%colours), where.left, where.bottom-3, name)
		}
	}
}

// namedMarks are the boxes around the marks that have names.
func (p *plot) namedMarks(series []Series) (boxes []box) {
	for i := range series {
		for k := range series[i].Names {
			at, ok := p.at(series[i].X[k], series[i].Y[k])
			if ok && series[i].Names[k] != "" {
				r := series[i].radius(k)
				boxes = append(boxes, box{at.x - r, at.y - r, at.x + r, at.y + r})
			}
		}
	}
	return boxes
}

// box is a rectangle.
type box struct{ left, top, right, bottom float64 }

func (b box) touches(o box) bool {
	return b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom
}

// free returns where a text of a width goes beside a marker.
func (p *plot) free(at point, r, w float64, taken []box) box {
	fits := func(b box) bool {
		return b.left >= p.left && b.right <= p.width && b.top >= lineStep &&
			b.bottom <= p.bottom && !slices.ContainsFunc(taken, b.touches)
	}
	const half = lineStep / 2
	for _, b := range []box{
		{at.x + r + 4, at.y - half, at.x + r + 4 + w, at.y + half},
		{at.x - r - 4 - w, at.y - half, at.x - r - 4, at.y + half},
		{at.x - w/2, at.y - r - 3 - lineStep, at.x + w/2, at.y - r - 3},
		{at.x - w/2, at.y + r + 3, at.x + w/2, at.y + r + 3 + lineStep},
	} {
		if fits(b) {
			return b
		}
	}
	left := max(p.left, min(at.x+r+13, p.width-w))
	below := box{left, at.y + lineStep, left + w, at.y + 2*lineStep}
	for b := below; b.bottom <= p.bottom; b.top, b.bottom = b.top+4, b.bottom+4 {
		if fits(b) {
			return b
		}
	}
	for b := below; b.top >= lineStep; b.top, b.bottom = b.top-4, b.bottom-4 {
		if fits(b) {
			return b
		}
	}
	return below
}
