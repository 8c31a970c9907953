// Package auth knows the accounts of a server: who asks, and what they may.
//
// Meet first: [Open] gives the [Book] of accounts in a server's state; [Guard] finds the [Account]
// of a request and refuses what it may not, as middleware for HTTP ([Guard.HTTP]) and call by call
// for gRPC ([Guard.RPC]); [From] gives the account to whoever answers. [Endpoints] is the one table
// of what each endpoint of both protocols needs.
//
// # Rights
//
// A grant is a set of rights on the models whose names match a pattern, in the syntax of
// path.Match: "*" is all models, "team-*" those that begin so. The rights are
//
//   - read: that a model is there, its inputs, outputs, configuration and figures;
//   - infer: inferences;
//   - load: to load and unload it;
//   - push: to add or change its files;
//   - job: batch jobs with it;
//   - admin: all of these, and on "*" accounts, the audit, and settings of the server.
//
// # Who asks
//
// "Authorization: Bearer" with a token of weir's or, where an issuer is configured, one of OpenID
// Connect; without that header, a client's certificate, where an authority for them is configured.
// A token is 256 random bits, of which the state has the SHA-256 only. What is compared with a
// secret is compared in constant time. A header that does not hold is refused even beside a
// certificate that does.
//
// Where there are no accounts, the system says whose a connection within this machine is ([Peer]):
// other users than the server's read and infer, and no more.
//
// Who fails too often is told to wait, by address. A credential that holds always passes, so
// nobody is locked out by others behind the same address.
//
// Concurrency: every method may be called by any number of goroutines. The book is read from
// memory; changes are on the disk, with their records in the audit, before they hold.
//
// What it refuses: requests without an account ([ErrUnauthenticated]), without the right
// ([ErrDenied]), with too many failed attempts ([ErrTooOften]); and changes after which nobody
// could administer the server ([ErrLastAdmin]).
package auth
