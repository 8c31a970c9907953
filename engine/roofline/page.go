package roofline

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"time"

	"github.com/weirgpu/weir/internal/echarts"
)

//go:embed page.html
var page string

// HTML writes the table as a page with the roofline drawn, which needs nothing but a browser. The
// error is the writer's.
func (t *Table) HTML(w io.Writer, title string, when time.Time) error {
	p, err := template.New("page").
		Funcs(template.FuncMap{"pct": func(v float64) float64 { return 100 * v }}).
		Parse(page)
	if err != nil {
		return fmt.Errorf("roofline template: %w", err)
	}
	data, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return p.Execute(w, struct {
		Title, Machine string
		When           time.Time
		Table          *Table
		Data, Library  template.JS
	}{title, cmp.Or(t.Machine.Processor.Name, t.Machine.Device), when, t, template.JS(data),
		template.JS(echarts.Script())})
}
