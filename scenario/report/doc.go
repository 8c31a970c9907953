// Package report turns the result of a scenario into one HTML page that needs nothing else: who
// held the device when, how long requests took, how much memory each job held, and the tables
// behind them.
//
// Meet first: [Write].
//
// The charts are drawn by Apache ECharts 6.1.0 (internal/echarts, Apache-2.0, as its authors
// publish it), which the page carries within itself, so that it opens without a network and can be
// sent to a colleague as one file.
//
// Concurrency: Write shares nothing.
//
// What it refuses: to draw more than a browser can move. A phase's timeline shows at most
// [MaxHolds] intervals and says how many there were.
package report
