// Package web is the page of a server: what its devices, models and programs do now, and how to
// change it, live in a browser.
//
// Meet first: [New] makes a [Page] of a [Source], and [Page.Routes] are the endpoints to serve.
//
// The page itself is plain HTML, modules and style sheets of this package, embedded, without a
// build and without anything from elsewhere; its Content-Security-Policy (W3C, Content Security
// Policy Level 3) allows nothing else. What it shows is GET /v1/state, one [State], followed by
// GET /v1/events: server-sent events (WHATWG HTML, section 9.2) with what has changed, at most one
// in each [Period]. What it changes are POST requests of which each answers what was before, so
// that it can be undone.
//
// # How changes are found
//
// Each Period the source is asked, once for all who watch. A row of the state, such as a model, has
// the number of the Period in which it last changed. An event is made of the rows that changed
// after the one before it, whenever a reader takes it: a reader that is slow gets fewer events and
// not older ones, and one that comes back with the number of its last event gets what it missed.
//
// Concurrency: every method may be called by any number of goroutines.
//
// What it refuses: more readers of events at once than [auth.Streams] has (503, and 429 for those
// of one account); a reader that takes nothing for ten seconds is cut off. Rows of models that an
// account may not read are left out, and a stream ends whose account may read nothing any more.
package web
