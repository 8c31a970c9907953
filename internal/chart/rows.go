package chart

import (
	"fmt"
	"html"
	"strings"
)

// Rows is a chart of bars in rows, one above the other, over one axis.
type Rows struct {
	Label string // what the chart shows, for those who do not see it
	X     Axis
	Rows  []Row
}

// Row is one row of a chart: a heading where it has neither bars nor a range.
type Row struct {
	Name  string
	Style int // see Classes
	Bars  []Bar
	Range *Range
	Note  string // right of the plot
}

// Bar is an interval of the axis.
type Bar struct {
	From, To float64
	Height   float64 // the part of the row that it fills, from 0 to 1
	Mark     bool    // at its end
}

// Range is a distribution as a thin line from its least to its most, a thick one between two
// quantiles, and markers at them.
type Range struct {
	Least, Low, High, Most float64
	Tip                    string
}

// Heights of rows.
const (
	barStep   = 26.0
	rangeStep = 19.0
	headStep  = 24.0
)

// step is how high a row is.
func (r *Row) step() float64 {
	switch {
	case r.Range != nil:
		return rangeStep
	case r.Bars == nil:
		return headStep
	}
	return barStep
}

// SVG draws the chart at a width. The class is set on its element. Rows of bars say in attributes
// where they lie, so that a script can draw other bars in their place: the element has data-left
// and data-right, each row a path with data-row, data-y and data-height.
func (c *Rows) SVG(class string, width float64) string {
	p := c.layOut(width)
	for _, t := range p.x.ticks(max(2, int((p.right-p.left)/64))) {
		if at, ok := p.x.place(t.At); ok && at <= 1 {
			x := p.left + at*(p.right-p.left)
			p.line("grid", x, p.top, x, p.bottom)
		}
	}
	y := p.top
	for i := range c.Rows {
		p.row(&c.Rows[i], i, y)
		y += c.Rows[i].step()
	}
	p.WriteString(`<g class="ticks">`)
	p.xAxis()
	p.WriteString(`</g>`)
	svg := p.whole(class, c.Label)
	return strings.Replace(svg, "<svg ", fmt.Sprintf(`<svg data-left="%s" data-right="%s" `,
		num(p.left), num(p.right)), 1)
}

// layOut finds the place of the drawing between the names and the notes of the rows.
func (c *Rows) layOut(width float64) plot {
	p := plot{x: c.X.span(), top: 4}
	p.width, p.bottom = width, p.top
	names, notes := 0.0, 0.0
	for i := range c.Rows {
		p.bottom += c.Rows[i].step()
		notes = max(notes, textWidth(c.Rows[i].Note)+8)
		if c.Rows[i].Range != nil || c.Rows[i].Bars != nil {
			names = max(names, textWidth(c.Rows[i].Name)+10)
		}
	}
	p.left = max(12, min(names, width*0.32))
	p.right = width - max(14, min(notes, width*0.3))
	p.height = p.bottom + 2.6*lineStep
	return p
}

// row draws one row whose upper edge lies at y.
func (p *plot) row(r *Row, index int, y float64) {
	middle := y + r.step()/2
	switch {
	case r.Range != nil:
		p.name(fmt.Sprintf("named end c%d", r.Style%colours), p.left-8, middle+4, p.left-8, r.Name)
		p.distribution(r, middle)
		p.name("tick", p.right+8, middle+4, p.width-p.right-8, r.Note)
	case r.Bars == nil:
		p.name("head", 0, middle+6, p.width, r.Name)
	default:
		p.name("tick end", p.left-8, middle+4, p.left-8, r.Name)
		p.line("grid", p.left, middle, p.right, middle)
		p.bars(r, index, middle)
		p.name("tick", p.right+8, middle+4, p.width-p.right-8, r.Note)
	}
}

// bars draws the bars of a row around its middle as one path, and the marks as another.
func (p *plot) bars(r *Row, index int, middle float64) {
	const high = barStep - 8
	var path, marks strings.Builder
	for _, b := range r.Bars {
		from, _ := p.x.place(max(b.From, p.x.Min))
		to, ok := p.x.place(min(b.To, p.x.Max))
		if !ok || to < from {
			continue
		}
		x, w := p.left+from*(p.right-p.left), max(0.5, (to-from)*(p.right-p.left))
		h := high * max(b.Height, 0.08)
		fmt.Fprintf(&path, "M%s %sh%sv%sh-%sz", num(x), num(middle-h/2), num(w), num(h), num(w))
		if b.Mark && w > 3 {
			fmt.Fprintf(&marks, "M%s %sv%s", num(x+w-1), num(middle-h/2), num(h))
		}
	}
	fmt.Fprintf(p, `<path class="bars c%d" data-row="%d" data-y="%s" data-height="%s" d="%s">`+
		`<title>%s</title></path><path class="marks" d="%s"/>`, r.Style%colours, index,
		num(middle), num(high), path.String(), html.EscapeString(r.Name), marks.String())
}

// distribution draws the range of a row.
func (p *plot) distribution(r *Row, middle float64) {
	at := func(v float64) float64 {
		u, _ := p.x.place(max(v, p.x.Min))
		return p.left + u*(p.right-p.left)
	}
	d := r.Range
	c := fmt.Sprintf("c%d", r.Style%colours)
	p.line("thin "+c, at(d.Least), middle, at(d.Most), middle)
	p.line("thick "+c, at(d.Low), middle, at(d.High), middle)
	p.marker(r.Style, at(d.Low), middle, 3.2, d.Tip)
	p.marker(r.Style, at(d.High), middle, 4.2, d.Tip)
}
