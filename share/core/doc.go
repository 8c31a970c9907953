// Package core decides who has a device when. It is the one state machine of sharing: events go in,
// notices of what changed come out, and it has no clock, no lock and no goroutine. share/broker
// drives it in real time and share/sim in virtual time; the same events give the same notices in
// both, to the byte ([Replay]).
//
// Meet first: [Core], made by [New] for one device; [Event], what a driver tells it; and [Notice],
// what it answers: who was granted what, who is to give way, whose waiting reservation fits. What a
// policy wants (share.Terms) is a target; core compares it with what is and derives the notices.
//
// A job waits (Want), runs (Granted), and gives back: to wait on (Return) or to be idle (Release).
// A holder that has nothing to do but may have soon rests (Rest): it keeps its units, pays nothing,
// and gives them back as soon as somebody else is to have them. From then until it has given back
// it pays again, since others wait for it. It can be charged what it was found to have used at rest
// (Pay). Where jobs share units, it waits like any other to run beside those who came meanwhile.
//
// Core trusts neither its policy nor its driver. Terms that cannot be are counted as faults and not
// carried out; a policy that panics is replaced by fair and the jobs go on; an event that makes no
// sense in the state that the job is in is an error and changes nothing.
//
// Device time is charged by what is held: a unit held by k jobs at once costs each 1/k of it. The
// jobs' times sum to the time in which units were in use, and to what jobs are charged for that had
// work going on after they gave back (Pay). What the device did of that for the job is told apart
// (Measure), and changes nothing of what is charged. What a core remembers is bounded by its jobs,
// and the requests and iterations that they have begun and not ended, not by how long it runs.
//
// Where there are lanes (Salus, MLSys 2020), jobs that never iterate at once share the memory that
// they hold only within iterations. Core keeps them apart whatever the policy: lanes.go.
//
// What an elastic job (share.Share.Elastic) holds above what it keeps is lent: reservations that do
// not fit wait, and jobs between iterations are told to hold less (Evicted), whom the rule of
// share/evict puts first. Whoever waits is served, in order: evict.go says why. What is held never
// exceeds a cap or the device. Where memory comes to the device for its job's turn and has to go
// for another's (Moved), turns grow with what that takes: turns.go.
//
// A Core must be used by one goroutine at a time. It refuses a policy that the device cannot
// enforce, and devices of more than share.MaxUnits units.
package core
