// Package policy holds the policies that decide who runs on a device: one published policy per
// file, and one row for each in all.go.
//
// Meet first: [All] and [New], which find a policy by the name a user writes, and [Fair], the
// default. A policy is a [share.Policy]: a pure function of the snapshots it has been shown, with
// no clock, lock, channel or I/O, so that the same file runs live under share/broker and in virtual
// time under share/sim. What fair and priority have in common is in ledger.go and arbiter.go.
//
// To add a policy: write one file whose header cites the paper and section, maps its symbols to the
// fields of [share.JobState] and lists departures; give it a parameter struct with defaults and
// Validate; add its row to all.go; test it through share/sim.
//
// A policy value serves one device and is called by one goroutine at a time. A policy never grants
// more than is free, never ends a job, and never sees a job's name.
package policy
