// Package chart draws charts as SVG text for a page that carries its own style: axes with ticks at
// 1, 2 and 5 times powers of ten, lines that bear their names at their ends, points with markers,
// and rows of bars. A drawing is whole without a script, prints as it stands, and takes its colours
// from the style sheet of package page, so that one drawing serves light and dark.
//
// Meet first: [XY] for lines and points over two axes, [Rows] for bars in named rows. Both draw
// themselves at a given width; a page shows a wide drawing or a narrow one by its own width, since
// text in a drawing shrinks with it.
//
// Series are told apart by colour, and by dashes or the shape of their markers as well, so that
// neither a person who does not see the colours nor a print in grey loses them: series i has the
// classes that [Classes] returns.
//
// Concurrency: a chart is not changed by drawing it.
//
// What it refuses: nothing. Points that are not finite, or not positive on a logarithmic axis, are
// left out; a chart with no point left is its empty axes. All text is escaped; names that do not
// fit are shortened in the middle and keep the whole name as the title that a pointer over them
// shows.
package chart
