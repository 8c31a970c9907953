// Package page is the frame of every HTML page that weir writes: one style sheet, light, dark and
// printed, and a policy that lets the page load nothing and run no script but its own.
//
// Meet first: [Page], which a writer fills and [Page.Write] puts around a body.
//
// A body writes a [Table] by the template "table": with a caption, a scope on each heading, and
// where the page is narrow each row as a card. A name that may be long is written by the template
// "name", which shortens it in its middle and shows the whole on hover, in print and in cards. A
// chart stands in a figure, drawn for a wide and for a narrow page ([Draw]).
//
// Concurrency: a Page is not changed by Write.
//
// What it refuses: a script or a style that is no part of Page: browsers that know content security
// policies (W3C, Content Security Policy Level 3) run those alone whose hash the page states.
package page

import (
	"bufio"
	"crypto/sha256"
	_ "embed" // for the style sheet and the frame
	"encoding/base64"
	"fmt"
	"html/template"
	"io"

	"github.com/weirgpu/weir/internal/chart"
)

//go:embed style.css
var style string

// Style returns the style sheet of all pages, for one that is served in parts.
func Style() string { return style }

//go:embed frame.html
var frame string

// NameLength is how many characters of a name the template "name" shows at least.
const NameLength = 28

// Page is what a page is made of.
type Page struct {
	Title  string
	Wide   bool             // uses the whole width of the window
	Body   string           // a template, which may use "name", "table" and the functions of Funcs
	Funcs  template.FuncMap // nil for none
	Data   any              // of the body
	Script string           // run after the body is read; "" for none
	JSON   any              // what the script finds as JSON in the element #data; nil for nothing
}

// Write writes the page. Errors are those of the template Body and of the writer.
func (p *Page) Write(w io.Writer) error {
	t := template.New("frame").Funcs(template.FuncMap{"short": shorten}).Funcs(p.Funcs)
	if _, err := t.Parse(frame); err != nil {
		return fmt.Errorf("frame of the page: %w", err)
	}
	if _, err := t.New("body").Parse(p.Body); err != nil {
		return fmt.Errorf("template of the page %q: %w", p.Title, err)
	}
	b := bufio.NewWriter(w)
	err := t.Execute(b, struct {
		*Page
		Style  template.CSS
		Script template.JS
		Policy string
	}{p, template.CSS(style), template.JS(p.Script), policy(p.Script)})
	if err != nil {
		return err
	}
	return b.Flush()
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
func Draw(c Chart) template.HTML {
	return template.HTML(c.SVG("wide", wideChart) + c.SVG("narrow", narrowChart))
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

// shorten returns the short form of a name, "" where the name is short.
func shorten(name string) string {
	if s := chart.Short(name, NameLength); s != name {
		return s
	}
	return ""
}
