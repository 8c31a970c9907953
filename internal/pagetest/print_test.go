package pagetest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// asPrinted is what a page has to say on paper: its texts without spaces, and of these what is to
// be on one sheet.
type asPrinted struct {
	Texts []string // each run of text
	Whole []string // each figure and each row of a table
	Heads []string // what is not to be last on a sheet: headings, and heads of tables
}

const collect = `(() => {
	const seen = n => {
		const e = n.parentElement;
		return e.checkVisibility({ visibilityProperty: true }) && !e.closest("title, desc, script, style, noscript, .unseen");
	};
	const runs = of => {
		const walk = document.createTreeWalker(of, NodeFilter.SHOW_TEXT), all = [];
		for (let n; n = walk.nextNode();) {
			const t = n.data.replace(/\s+/g, "");
			if (t && seen(n)) all.push(t);
		}
		return all;
	};
	return { texts: runs(document.body),
		whole: [...document.querySelectorAll("figure, tbody tr")].map(e => runs(e).join("")).filter(t => t),
		heads: [...document.querySelectorAll("h2, h3, caption, thead, figcaption")].map(e => runs(e).join("")).filter(t => t) };
})()`

// printPage prints a page as a browser does when nobody sets anything, on A4, and returns what is
// wrong with it on paper, and the number of sheets.
func printPage(t *testing.T, ctx context.Context, html []byte) ([]string, int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(path, html, 0o666); err != nil {
		t.Fatal(err)
	}
	b := newTab(t, ctx)
	b.look(t, path, view{width: 718, media: "print"})
	want, err := chromedp.Run(b.ctx, chromedp.Evaluate[asPrinted](collect))
	if err != nil {
		t.Fatal(err)
	}
	const inch = 25.4
	got, err := chromedp.Call(b.ctx, page.PrintToPDF, page.PrintToPDFParams{
		PaperWidth: 210 / inch, PaperHeight: 297 / inch})
	if err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("WEIR_SCREENSHOTS"); dir != "" {
		name := strings.ReplaceAll(t.Name(), "/", "-") + ".pdf"
		if err := os.WriteFile(filepath.Join(dir, name), got.Data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	// Charts of 12 px in a drawing that is as wide as the paper are 6.4 pt; what is wider than the
	// paper makes Chromium shrink all of it.
	sheets, err := readSheets(got.Data, 6)
	if err != nil {
		t.Fatal(err)
	}
	return wrongOn(sheets, want), len(sheets)
}

// wrongOn compares sheets with what is to be on them.
func wrongOn(sheets []*sheet, want asPrinted) []string {
	var problems, pages []string
	for i, s := range sheets {
		for _, problem := range s.problems {
			problems = append(problems, fmt.Sprintf("sheet %d: %s", i+1, problem))
		}
		pages = append(pages, s.text.String())
	}
	for _, head := range slices.Compact(slices.Sorted(slices.Values(want.Heads))) {
		for i, page := range pages {
			if strings.HasSuffix(page, head) {
				problems = append(problems, fmt.Sprintf("sheet %d ends with %q", i+1, head))
			}
		}
	}
	all := strings.Join(pages, "")
	times := map[string]int{}
	for _, text := range want.Texts {
		times[text]++
	}
	for text, n := range times {
		if got := strings.Count(all, text); got < n {
			problems = append(problems, fmt.Sprintf("%q is printed %d times as text, want %d", text,
				got, n))
		}
	}
	for _, text := range want.Whole {
		n := 0
		for _, page := range pages {
			n += strings.Count(page, text)
		}
		if n == 0 {
			problems = append(problems, fmt.Sprintf("not on one sheet: %.60q", text))
		}
	}
	return problems
}

// TestPrint prints every page, and pages whose rules for print are broken.
func TestPrint(t *testing.T) {
	ctx := browser(t)
	written := map[string]string{}
	for _, p := range pages {
		t.Run(p.name, func(t *testing.T) {
			var html bytes.Buffer
			p.write(t, &html)
			written[p.name] = html.String()
			problems, sheets := printPage(t, ctx, html.Bytes())
			for _, problem := range problems {
				t.Error(problem)
			}
			if sheets < 2 {
				t.Errorf("%d sheets: nothing can be cut between them", sheets)
			}
		})
	}
	for _, broken := range []struct{ name, page, rule, by, says string }{
		{"cut charts", "report", "figure, tr { break-inside: avoid; }", "", "not on one sheet"},
		{"heads alone", "roofline", "caption, thead, thead tr { break-after: avoid; } " +
			"tbody tr:first-child { break-before: avoid; }", "", " ends with "},
		{"wide tables", "report", "table { font-size: 8pt; }", "td { white-space: nowrap; " +
			"padding-right: 4em; }", "outside of the margins"},
		{"scrolled stages", "inspect", ".stages { display: block; overflow: visible; }", "",
			"as text, want"},
	} {
		t.Run(broken.name, func(t *testing.T) {
			before, after, found := strings.Cut(written[broken.page], broken.rule)
			if !found {
				t.Fatalf("the page has no rule %s", broken.rule)
			}
			// The policy of the page lets no style in but its own.
			before = strings.Replace(before, "Content-Security-Policy", "x", 1)
			// Where sheets end depends on the fonts that there are: the page begins lower until
			// something stands there that the rule is for.
			for down := 0; down < 1024; down += 16 {
				lower := fmt.Sprintf("body { margin-top: %dpx; }", down)
				problems, _ := printPage(t, ctx, []byte(before+broken.by+lower+after))
				if strings.Contains(strings.Join(problems, "\n"), broken.says) {
					return
				}
			}
			t.Error("nothing is said of it")
		})
	}
}
