// Package report turns the result of a scenario into one HTML page that needs nothing else: what
// each policy costs those who wait and gives the others, how long requests took, what each job got,
// who held the device when, how much memory each job held, and the tables behind them.
//
// Meet first: [Write].
//
// The page is whole without a script, with its charts drawn by package internal/chart. A script
// adds one thing: to move and to magnify the timelines. The page opens without a network and can be
// sent to a colleague as one file.
//
// Concurrency: Write shares nothing.
//
// What it refuses: to grow with its result beyond what a person can read and a browser can move.
// Of more than [MaxJobs] jobs, charts show those that matter most by name and the rest together,
// and tables show classes with their jobs folded away. The timelines hold at most [MaxHolds]
// intervals in all and say how many there were.
package report
