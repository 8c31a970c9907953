package page

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const evil = `</script><script>alert(1)</script>`

func written(t *testing.T, p Page) string {
	t.Helper()
	var b strings.Builder
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestWrite: titles, names and data cannot become markup, and the policy names what is in the page.
func TestWrite(t *testing.T) {
	p := Page{Title: evil, Body: func(b *Body) {
		b.Name(evil)
		b.Add(`<p title="%s">%s</p>`, evil+`" onclick="x`, Page{Title: evil})
	}, Script: "const a = 1 < 2 && 'x' // <b>", JSON: []string{evil}}
	text := written(t, p)
	if strings.Count(text, "<script") != 2 || strings.Contains(text, "alert(1)</script>") {
		t.Errorf("a name has become markup: %s", text)
	}
	if !strings.Contains(text, "<script>"+p.Script+"</script>") {
		t.Error("the script is not as it was given, and so not what the policy names")
	}
	for _, want := range []string{`title="&lt;/script&gt;`, "default-src &#39;none&#39;",
		"script-src &#39;sha256-"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if strings.Contains(text, `" onclick`) {
		t.Errorf("a text has left its attribute: %s", text)
	}
	text = written(t, Page{Title: "bare", Body: func(b *Body) { b.Add("<p>text</p>") }})
	if strings.Contains(text, "script") || strings.Contains(text, `id="data"`) {
		t.Error("a page without a script allows one")
	}
	nothing := func(*Body) {}
	if err := (&Page{Title: "broken", Body: nothing, JSON: math.NaN()}).Write(
		&strings.Builder{}); err == nil {
		t.Error("data that JSON cannot hold is no error")
	}
	full := errors.New("disk full")
	if err := (&Page{Body: nothing}).Write(failing{full}); !errors.Is(err, full) {
		t.Errorf("the writer's error is %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestTable: columns that say nothing are left out with their heads, rows that have none say why.
func TestTable(t *testing.T) {
	table := Table{Caption: "what", Heads: []string{"name", "word", "none", "figure"}, Left: 2,
		Rows: []Row{{Name: "a", Cells: []string{"x", "", "1"}}, {Name: "b", Bad: "refused"},
			{Name: strings.Repeat("long", 20), Cells: []string{"", "", "2"}}}}
	text := written(t, Page{Body: func(b *Body) { b.Table(table) }})
	for _, want := range []string{"<caption>what</caption>",
		`<th scope="col" class="left">name</th><th scope="col" class="left">word</th>` +
			`<th scope="col">figure</th>`,
		`<th scope="row">a</th><td class="left" data-label="word">x</td>` +
			`<td data-label="figure">1</td>`,
		`<td class="bad left" colspan="2">refused</td>`,
		`<span class="short" title="` + strings.Repeat("long", 20) + `">`,
		`<span class="long">` + strings.Repeat("long", 20) + `</span>`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in %s", want, text[strings.Index(text, "<table"):])
		}
	}
	if strings.Contains(text, ">none<") {
		t.Error("a column has no figure")
	}
}

// severe are the matrices of Machado, Oliveira and Fernandes, "A physiologically-based model for
// simulation of color vision deficiency", IEEE TVCG 15(6), 2009, for the severity 1.0, over linear
// RGB.
var severe = map[string][9]float64{
	"all colours": {1, 0, 0, 0, 1, 0, 0, 0, 1},
	"protanopia": {0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882,
		-0.048116, 1.051998},
	"deuteranopia": {0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.011820,
		0.042940, 0.968881},
	"tritanopia": {1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733,
		0.691367, 0.303900},
}

// oklab returns a colour #rrggbb, as who has that deficiency sees it, in the space Oklab (Ottosson,
// "A perceptual color space for image processing", 2020).
func oklab(t *testing.T, hex string, m [9]float64) [3]float64 {
	t.Helper()
	n, err := strconv.ParseUint(hex[1:], 16, 32)
	if err != nil || len(hex) != 7 {
		t.Fatalf("colour %s: %v", hex, err)
	}
	var rgb [3]float64
	for i := range rgb {
		v := float64(n>>(16-8*i)&255) / 255
		if rgb[i] = v / 12.92; v > 0.04045 {
			rgb[i] = math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	var seen [3]float64
	for i := range seen {
		seen[i] = min(1, max(0, m[3*i]*rgb[0]+m[3*i+1]*rgb[1]+m[3*i+2]*rgb[2]))
	}
	r, g, b := seen[0], seen[1], seen[2]
	l := math.Cbrt(0.4122214708*r + 0.5363325363*g + 0.0514459929*b)
	c := math.Cbrt(0.2119034982*r + 0.6806995451*g + 0.1073969566*b)
	s := math.Cbrt(0.0883024619*r + 0.2817188376*g + 0.6299787005*b)
	return [3]float64{0.2104542553*l + 0.7936177850*c - 0.0040720468*s,
		1.9779984951*l - 2.4285922050*c + 0.4505937099*s,
		0.0259040371*l + 0.7827717662*c - 0.8086757660*s}
}

// TestColours: who does not see all colours tells the first colours of charts apart, on paper, on a
// light screen and on a dark one. All eight have dashes and markers of their own beside.
func TestColours(t *testing.T) {
	found := regexp.MustCompile(`--c([0-7]): (#[0-9a-f]{6})`).FindAllStringSubmatch(style, -1)
	if len(found) != 16 {
		t.Fatalf("%d colours in the style sheet", len(found))
	}
	for scheme, names := range map[string][][]string{"light": found[:8], "dark": found[8:]} {
		for kind, m := range severe {
			for i := range names {
				for j := range i {
					a, b := oklab(t, names[i][2], m), oklab(t, names[j][2], m)
					d := math.Sqrt((a[0]-b[0])*(a[0]-b[0]) + (a[1]-b[1])*(a[1]-b[1]) +
						(a[2]-b[2])*(a[2]-b[2]))
					least := 0.03 // more than what is just noticed, 0.02
					if i < 5 {
						least = 0.06
					}
					if d < least {
						t.Errorf("%s, %s: %s and %s are %.3f apart, want %.2f", scheme, kind,
							names[i][2], names[j][2], d, least)
					}
				}
			}
		}
	}
}
