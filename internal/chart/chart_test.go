package chart

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestTicks compares ticks with those that a person would choose.
func TestTicks(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		most   int
		log    bool
		want   string
	}{
		{0, 1, 6, false, "0 0.2 0.4 0.6 0.8 1"},
		{0, 1000, 3, false, "0 500 1000"},
		{-3, 17, 5, false, "0 5 10 15"},
		{0.0012, 0.0019, 4, false, "0.0012 0.0014 0.0016 0.0018"},
		{0.56, 1.42, 4, false, "0.6 0.8 1 1.2 1.4"}, // a step of 0.5 would leave one tick
		{1, 1000, 10, true, "1 2 5 10 20 50 100 200 500 1000"},
		{1, 1000, 6, true, "1 10 100 1000"},
		{0.001, 1e6, 5, true, "0.01 1 100 10000 1000000"},
		{0.3, 30, 9, true, "0.5 1 2 5 10 20"},
		{3, 4.5, 4, true, "3 3.5 4 4.5"}, // no power of ten within
	} {
		at := Linear(c.lo, c.hi, c.most)
		if c.log {
			at = Log(c.lo, c.hi, c.most)
		}
		var got []string
		for _, v := range at {
			got = append(got, Number(v))
		}
		for i := range at {
			if c.lo < 1 && c.hi < 0.01 { // beyond the digits of Number
				got[i] = fmt.Sprintf("%.4f", at[i])
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("from %v to %v: %v, want %s", c.lo, c.hi, got, c.want)
		}
	}
	if Linear(1, 1, 5) != nil || Log(0, 1, 5) != nil || Linear(math.NaN(), 1, 5) != nil {
		t.Error("ticks of no range")
	}
	// What differs by rounding, as 3.3/1.1 and 3 do, and what has no end: counting would have none.
	for _, c := range [][2]float64{{1, math.Nextafter(1, 2)}, {3.3 / 1.1, 3}, {1, math.Inf(1)},
		{math.Inf(-1), 1}, {1e20, 1e20 + 20000}} {
		if at := append(Linear(c[0], c[1], 5), Log(c[0], c[1], 5)...); len(at) > 0 {
			t.Errorf("from %v to %v: %v", c[0], c[1], at)
		}
	}
}

// TestSpan holds that axes of whatever was measured are finite and have a length.
func TestSpan(t *testing.T) {
	for _, log := range []bool{false, true} {
		for _, lo := range []float64{0, 1, -1, 1e20, math.NaN(), math.Inf(1)} {
			for _, hi := range []float64{lo, math.Nextafter(lo, 2*lo), 0, math.Inf(1), math.NaN()} {
				a := Axis{Log: log, Min: lo, Max: hi}.span()
				if d := a.Max - a.Min; !(d > 1e-12) || math.IsInf(d, 0) {
					t.Errorf("log %v, from %v to %v: %v to %v", log, lo, hi, a.Min, a.Max)
				}
			}
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", math.Copysign(0, -1): "0", 1: "1",
		12.3456: "12.3", 0.5: "0.5", 0.000123456: "0.000123", 123456: "123456", 99.96: "100",
		-2.50: "-2.5"} {
		if got := Number(v); got != want {
			t.Errorf("%v is printed as %s, want %s", v, got, want)
		}
	}
}

func TestShort(t *testing.T) {
	for _, c := range [][2]string{{"abcdefgh", "abcdefgh"}, {"abcdefghi", "abcd…ghi"},
		{"äöüäöüäöü", "äöüä…äöü"}, {"job-of-many-49", "job-…-49"}} {
		if got := Short(c[0], 8); got != c[1] {
			t.Errorf("%s is shortened to %s, want %s", c[0], got, c[1])
		}
	}
	if got := fit(strings.Repeat("a", 40), 80); textWidth(got) > 80 || len([]rune(got)) < 8 {
		t.Errorf("fitted into 80: %q", got)
	}
	if got := fit(strings.Repeat("i", 1e6), 80); len([]rune(got)) != 10 { // quickly
		t.Errorf("fitted into 80: %q", got)
	}
}

// TestClasses: no two of 64 series look alike, and of the first eight no two have a colour, dashes
// or a marker in common.
func TestClasses(t *testing.T) {
	seen := map[string]bool{}
	shapes := map[int]bool{}
	for i := range colours * colours {
		if seen[Classes(i)] {
			t.Errorf("series %d looks like an earlier one", i)
		}
		seen[Classes(i)] = true
		if i < colours {
			shapes[shapeOf(i)] = true
		}
	}
	if len(shapes) != colours {
		t.Errorf("the first %d series have %d shapes", colours, len(shapes))
	}
}

// wellFormed fails the test where a drawing is no XML, and returns its text.
func wellFormed(t *testing.T, svg string) string {
	t.Helper()
	var text strings.Builder
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		tok, err := d.Token()
		if err == io.EOF {
			return text.String()
		}
		if err != nil {
			t.Fatalf("%v in %s", err, svg)
		}
		if c, ok := tok.(xml.CharData); ok {
			text.Write(c)
			text.WriteByte('|')
		}
	}
}

const evil = `</svg><script>&"`

// TestXY: what cannot be drawn is left out, all text is escaped, and each line bears its name once.
func TestXY(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	c := XY{Label: evil, Height: 100, X: Axis{Max: 10, Label: evil},
		Y: Axis{Log: true, Min: 1, Max: 100, Label: evil},
		Series: []Series{
			{Name: evil, X: []float64{0, 1, 2, 3, 10}, Y: []float64{1, nan, -1, inf, 100}},
			{Name: "steps", Style: 1, Steps: true, X: []float64{0, 10}, Y: []float64{10, 100}},
			{Name: "nothing", X: []float64{nan}, Y: []float64{nan}},
			{Style: 2, Points: true, X: []float64{5, 5}, Y: []float64{10, nan},
				Names: []string{evil, "unseen"}, Tips: []string{evil, ""}},
		}}
	for _, width := range []float64{960, 360, 10} {
		svg := c.SVG("wide", width)
		text := wellFormed(t, svg)
		if strings.Contains(text, "nothing") || strings.Contains(text, "unseen") ||
			strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("%v wide, what is not there is drawn: %s", width, svg)
		}
		if width > 100 && (strings.Count(text, "steps|") != 2 || // its title and its name
			strings.Count(text, evil+"|") < 3) {
			t.Errorf("%v wide, the texts are %s", width, text)
		}
	}
	svg := c.SVG("wide", 960)
	if n := strings.Count(svg, `class="line`); n != 2 {
		t.Errorf("%d lines are drawn", n)
	}
	if !strings.Contains(svg, "H") || !strings.Contains(svg, "V") {
		t.Error("steps are not drawn as such")
	}
	wellFormed(t, (&XY{}).SVG("wide", 960))
}

// TestNamesApart: the names of lines that end at one place, and of points that lie on each other,
// do not lie on each other.
func TestNamesApart(t *testing.T) {
	c := XY{Height: 200, X: Axis{Max: 1}, Y: Axis{Max: 1}}
	for i := range 9 {
		c.Series = append(c.Series,
			Series{Name: fmt.Sprint("line ", i), X: []float64{0, 1}, Y: []float64{0, 1}},
			Series{Points: true, X: []float64{0.5}, Y: []float64{0.5},
				Names: []string{fmt.Sprint("point ", i)}})
	}
	texts := namesApart(t, c.SVG("wide", 960))
	if n := len(slices.DeleteFunc(texts, func(s text) bool { return !s.named() })); n != 18 {
		t.Fatalf("%d names", n)
	}
}

// TestNamesAboveTicks: names of lines that end at the bottom, and of points that lie there, do not
// lie on the ticks, however long these are.
func TestNamesAboveTicks(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		end := math.Pow(10, float64(r.IntN(9))-6)
		c := XY{Height: 150, X: Axis{Max: end * (0.5 + r.Float64())}, Y: Axis{Max: 1}}
		for i := range 1 + r.IntN(6) {
			x := []float64{0, c.X.Max * (0.9 + r.Float64()/10)}
			c.Series = append(c.Series,
				Series{Name: fmt.Sprint("line ", i), X: x, Y: []float64{0, r.Float64() / 50}},
				Series{Points: true, X: x[1:], Y: []float64{r.Float64() / 50},
					Names: []string{"at"}},
				Series{Points: true, X: []float64{x[1] * r.Float64() / 9},
					Y: []float64{r.Float64()}, Names: []string{"a longer name"}})
		}
		namesApart(t, c.SVG("wide", 400+600*r.Float64()))
	}
}

// text is a text of a drawing.
type text struct {
	X     float64 `xml:"x,attr"`
	Y     float64 `xml:"y,attr"`
	Class string  `xml:"class,attr"`
	Text  string  `xml:",chardata"`
}

func (s text) named() bool { return strings.HasPrefix(s.Class, "named") }

// left is where it begins: style sheets centre and end texts at their places by their classes.
func (s text) left() float64 {
	switch w := textWidth(s.Text); {
	case strings.Contains(s.Class, "mid"):
		return s.X - w/2
	case strings.Contains(s.Class, "end"):
		return s.X - w
	}
	return s.X
}

// namesApart holds that no name lies on any other text of a drawing, and returns its texts.
func namesApart(t *testing.T, svg string) []text {
	t.Helper()
	var drawn struct {
		Texts []text `xml:"text"`
	}
	if err := xml.Unmarshal([]byte(svg), &drawn); err != nil {
		t.Fatal(err)
	}
	for i, a := range drawn.Texts {
		for _, b := range drawn.Texts[i+1:] {
			if (a.named() || b.named()) && math.Abs(a.Y-b.Y) < fontSize &&
				a.left() < b.left()+textWidth(b.Text) && b.left() < a.left()+textWidth(a.Text) {
				t.Errorf("%+v lies on %+v", a, b)
			}
		}
	}
	return drawn.Texts
}

// TestRows: bars lie where their times are, and say so to a script; what lies outside of the axis
// is cut off.
func TestRows(t *testing.T) {
	c := Rows{Label: "rows", X: Axis{Max: 100}, Rows: []Row{
		{Name: evil, Bars: []Bar{{From: 0, To: 50, Height: 1}, {From: 90, To: 200, Height: 0.5,
			Mark: true}, {From: 150, To: 160, Height: 1}}},
		{Name: "idle", Style: 1, Bars: []Bar{}},
		{Name: "a heading"},
		{Name: "range", Style: 2, Note: "p99 8", Range: &Range{1, 2, 8, 90, evil}},
	}}
	svg := c.SVG("wide", 960)
	text := wellFormed(t, svg)
	for _, want := range []string{"idle|", "a heading|", "range|", "p99 8|"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in %s", want, text)
		}
	}
	var left, right float64
	if _, err := fmt.Sscanf(svg, `<svg data-left="%f" data-right="%f"`, &left, &right); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`d="M%s 8h%sv18h-%szM%s 12.5h%sv9h-%sz"`, num(left),
		num((right-left)/2), num((right-left)/2), num(left+0.9*(right-left)),
		num((right-left)/10), num((right-left)/10))
	if !strings.Contains(svg, want) {
		t.Errorf("%s is missing in %s", want, svg)
	}
	if n := strings.Count(svg, "data-row="); n != 2 {
		t.Errorf("%d rows for a script", n)
	}
}
