// Package catalogue describes devices that this machine may not have, from public data sheets, for
// simulations on them.
//
// Meet first: [Device], the figures of one device with their sources; [All]; and [Find].
//
// Its values are plain data, made anew by each call, so that goroutines need no agreement.
//
// The package refuses names that it does not have. It measures nothing: what a device reaches is
// less than what its data sheet says.
package catalogue
