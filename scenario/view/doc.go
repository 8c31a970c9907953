// Package view shows a running scenario to a person: a live table where the output is a terminal,
// plain lines where it is not.
//
// Meet first: [New] makes a [View] for an output; its Stage and Live methods fit scenario.Options.
//
// Concurrency: Stage and Live may be called from any goroutine; Close ends the view, after which
// nothing more is drawn.
//
// What it refuses: to be in the way. Lines come every two seconds at most, and an output that fails
// is left alone.
package view
