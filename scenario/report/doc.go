// Package report turns the result of a scenario into one HTML page that needs nothing else: who
// held the device when, how long requests took, how much memory each job held, what each policy
// costs those who wait and gives the others, and the tables behind them.
//
// Meet first: [Write].
//
// The charts are drawn by Apache ECharts 6.1.0 (internal/echarts, Apache-2.0, as its authors
// publish it), which the page carries within itself, so that it opens without a network and can be
// sent to a colleague as one file.
//
// Concurrency: Write shares nothing.
//
// What it refuses: to draw more than a browser can move. The timelines show at most [MaxHolds]
// intervals in all and say how many there were.
package report
