// Command draw writes the picture of the floors as SVG: go run ./internal/floors/draw >
// docs/floors.svg
package main

import (
	"bufio"
	"fmt"
	"html"
	"os"
	"strings"

	"github.com/weirgpu/weir/internal/floors"
)

const (
	width, left    = 1000, 44
	rowHeight, gap = 56, 8
	inner          = width - left - 12
)

func main() {
	w := bufio.NewWriter(os.Stdout)
	draw(w)
	if err := w.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "draw:", err)
		os.Exit(1)
	}
}

func draw(w *bufio.Writer) {
	top := 0
	for _, r := range floors.Table {
		top = max(top, r.Floor)
	}
	height := (top+2)*(rowHeight+gap) + 40
	fmt.Fprintf(w,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif">`+"\n",
		width, height)
	fmt.Fprintf(w, `<rect width="%d" height="%d" fill="#fbfcfd"/>`+"\n", width, height)
	for f := top; f >= 0; f-- {
		y := 12 + (top-f)*(rowHeight+gap)
		fmt.Fprintf(w, `<text x="14" y="%d" font-size="20" fill="#9aa7b4">%d</text>`+"\n",
			y+rowHeight/2+7, f)
		drawFloor(w, f, y)
	}
	y := 12 + (top+1)*(rowHeight+gap)
	boxes(w, pick(0, floors.Beside), left, inner, y)
	fmt.Fprintf(
		w,
		`<text x="%d" y="%d" font-size="13" fill="#667">An import goes down only. The blue column runs models, the `+
			`orange one decides who runs; they meet in the green joints.</text>`+"\n",
		left,
		y+rowHeight+26,
	)
	fmt.Fprintln(w, `</svg>`)
}

func drawFloor(w *bufio.Writer, floor, y int) {
	engine, sharing := pick(floor, floors.Engine), pick(floor, floors.Sharing)
	joints := pick(floor, floors.Both)
	switch {
	case len(joints) > 0 && len(engine) == 0:
		boxes(w, joints, left, inner, y)
	case len(joints) > 0:
		boxes(w, engine, left, inner/3, y)
		boxes(w, joints, left+inner/3+gap, inner-inner/3-gap, y)
	default:
		split := inner * 2 / 3
		boxes(w, engine, left, split, y)
		boxes(w, sharing, left+split+gap, inner-split-gap, y)
	}
}

func pick(floor int, c floors.Column) []floors.Row {
	var out []floors.Row
	for _, r := range floors.Table {
		if r.Floor == floor && r.Column == c && r.What != "" {
			out = append(out, r)
		}
	}
	return out
}

var fills = map[floors.Column][2]string{
	floors.Engine: {
		"#e3eefb",
		"#2f7fd1",
	},
	floors.Sharing: {"#fdeedd", "#d9771a"},
	floors.Both:    {"#e4f5e9", "#3a9d5d"},
	floors.Beside:  {"#eef1f4", "#7b8794"},
}

// boxes draws the packages of one floor side by side.
func boxes(w *bufio.Writer, rows []floors.Row, x, width, y int) {
	if len(rows) == 0 {
		return
	}
	each := (width - gap*(len(rows)-1)) / len(rows)
	for i, r := range rows {
		at := x + i*(each+gap)
		fmt.Fprintf(w,
			`<rect x="%d" y="%d" width="%d" height="%d" rx="6" fill="%s" stroke="%s"/>`+"\n", at, y,
			each, rowHeight, fills[r.Column][0], fills[r.Column][1])
		name := strings.TrimSuffix(r.Path, "/...") + "/"
		if r.Path == "" {
			name = "weir"
		}
		text(w, at+each/2, y+24, 16, "#1b2733", name)
		text(w, at+each/2, y+43, 12, "#556", strings.TrimPrefix(r.What, "weir: "))
	}
}

func text(w *bufio.Writer, x, y, size int, color, s string) {
	fmt.Fprintf(w,
		`<text x="%d" y="%d" font-size="%d" fill="%s" text-anchor="middle">%s</text>`+"\n", x, y,
		size, color, html.EscapeString(s))
}
