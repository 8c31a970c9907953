// Package page is the frame of every HTML page that weir writes: one style sheet, light, dark and
// printed, and a policy that lets the page load nothing and run no script but its own.
//
// Meet first: [Page], which a writer fills and [Page.Write] puts around a body.
//
// A body is written by a function, with [Body.Add], which makes texts safe. [Body.Table] writes a
// table with a caption, a scope on each heading, and where the page is narrow each row as a card.
// [Body.Name] writes a name that may be long: shortened in its middle, and whole on hover, in print
// and in cards. A chart stands in a figure, drawn for a wide and for a narrow page ([Draw]).
//
// There are no templates of html/template: these look methods up by names that they learn late, for
// which the linker keeps every method of every type in the program, some 3 MB of it.
//
// Concurrency: a Page is not changed by Write.
//
// What it refuses: a script or a style that is no part of Page: browsers that know content security
// policies (W3C, Content Security Policy Level 3) run those alone whose hash the page states.
package page

import (
	"bufio"
	"crypto/sha256"
	_ "embed" // for the style sheet
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
)

//go:embed style.css
var style string

// Style returns the style sheet of all pages, for one that is served in parts.
func Style() string { return style }

// NameLength is how many characters of a name [Body.Name] shows at least.
const NameLength = 28

// Page is what a page is made of.
type Page struct {
	Title  string
	Wide   bool          // uses the whole width of the window
	Body   func(b *Body) // writes the body
	Script string        // run after the body is read; "" for none
	JSON   any           // what the script finds as JSON in the element #data; nil for nothing
}

// Write writes the page. Errors are those of what JSON cannot hold, and of the writer.
func (p *Page) Write(w io.Writer) error {
	b := &Body{}
	b.Add(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="%s">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>%s</title>
<style>%s</style>
</head>
<body`, policy(p.Script), p.Title, HTML(style))
	if p.Wide {
		b.Add(` class="whole"`)
	}
	b.Add(">\n")
	p.Body(b)
	b.Add("\n")
	if err := p.addData(b); err != nil {
		return err
	}
	if p.Script != "" {
		b.Add("<script>%s</script>\n", HTML(p.Script))
	}
	b.Add("</body>\n</html>\n")
	out := bufio.NewWriter(w)
	_, _ = out.WriteString(b.text.String()) // Flush has the error
	return out.Flush()
}

// addData adds what the page's script and other programs read.
func (p *Page) addData(b *Body) error {
	if p.JSON == nil {
		return nil
	}
	data, err := json.Marshal(p.JSON) // which escapes what could end the element
	if err != nil {
		return fmt.Errorf("data of the page %q: %w", p.Title, err)
	}
	b.Add(`<script type="application/json" id="data">%s</script>`+"\n", HTML(data))
	return nil
}

// Chart is what can be drawn at a width: [chart.XY] and [chart.Rows].
type Chart interface {
	SVG(class string, width float64) string
}

// The widths at which a chart is drawn, in pixels of a page that shows it unscaled.
const (
	wideChart   = 960
	narrowChart = 360
)

// Draw returns the drawings of a chart for a wide and for a narrow page, of which the style sheet
// shows one.
func Draw(c Chart) HTML {
	return HTML(c.SVG("wide", wideChart) + c.SVG("narrow", narrowChart))
}

// policy allows the style sheet and the script, by their hashes, and nothing else.
func policy(script string) string {
	s := "default-src 'none'; style-src " + hash(style) + "; base-uri 'none'; form-action 'none'"
	if script != "" {
		s += "; script-src " + hash(script)
	}
	return s
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
