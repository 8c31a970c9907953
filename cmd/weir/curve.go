package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/weirgpu/weir/internal/terminal"
)

// curveRows is how many lines a curve takes.
const curveRows = 6

// blocks are the eighths of a cell.
var blocks = []rune("▁▂▃▄▅▆▇█")

// drawCurve draws positive numbers, their logarithm upwards, where a person watches.
func drawCurve(w io.Writer, values []float64) {
	if !terminal.Live(w) || !terminal.UTF8() || len(values) < 2 {
		return
	}
	for _, line := range curveLines(values, max(terminal.Width(w)-12, 10)) {
		fmt.Fprintln(w, line)
	}
}

// curveLines are the lines of a curve of at most so many columns, the largest value beside the
// first and the smallest beside the last.
func curveLines(values []float64, width int) (lines []string) {
	logs := logMeans(values, min(len(values), width))
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range logs {
		lo, hi = min(lo, v), max(hi, v)
	}
	steps := len(blocks)
	for row := range curveRows {
		var line strings.Builder
		for _, v := range logs {
			part := (v - lo) / max(hi-lo, 1e-30)
			level := int(part*float64(curveRows*steps-1)) - (curveRows-1-row)*steps
			if level < 0 {
				line.WriteByte(' ')
			} else {
				line.WriteRune(blocks[min(level, steps-1)])
			}
		}
		edge := ""
		switch row {
		case 0:
			edge = fmt.Sprintf("%.3g", math.Exp(hi))
		case curveRows - 1:
			edge = fmt.Sprintf("%.3g", math.Exp(lo))
		}
		lines = append(lines, fmt.Sprintf("%9s %s", edge, line.String()))
	}
	return lines
}

// logMeans are the logarithms of the means of n parts of values, in their order.
func logMeans(values []float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		part := values[i*len(values)/n : (i+1)*len(values)/n]
		for _, v := range part {
			out[i] += v / float64(len(part))
		}
		out[i] = math.Log(max(out[i], 1e-30))
	}
	return out
}
