// Package jobs runs what was handed in to a server and nobody waits for: batch jobs, which compute
// every row of a file with a model and keep the results.
//
// Meet first: [Open], which goes on with the jobs of a state; [Jobs.Make] and [Jobs.Get]; [Job] and
// its [State]; and [Jobs.Routes], the endpoints.
//
// # A job's way
//
//	queued -> running -> done
//	   ^         |-----> failed     (Retry: queued)
//	   |---------|
//	queued, running ---> cancelled
//
// A job that runs goes back to queued when the server stops, when its model is not served or its
// memory is promised to others, when another account's turn has come, and when an attempt failed.
// After a failure it rests, twice as long each time; after [Options.Attempts] without a row it has
// failed. An attempt is counted when it begins, so that a job which ends the process is tried no
// more often than another.
//
// # What holds
//
// Each row of the input is computed and kept exactly once in the result, whenever the process is
// killed. Results of some rows, about a second's, are a blob; it and the job's progress become part
// of the state in one transaction, which also holds that the job runs and that the rows are the
// next ones. A row may be computed again after a kill, of which nothing is seen. For a key
// (Idempotency-Key, draft-ietf-httpapi-idempotency-key-header-07) of an account there is one job,
// whose row has the digest of what was asked.
//
// # Where it runs
//
// A job opens its model a second time (server.Server.Beside), as a tenant of the host in the
// opportunistic class: requests take the device from it within an operator, under every policy that
// knows classes, and under the others it weighs next to nothing. Through the queue of the model
// that is served, a job would need no memory of its own, and a request would wait for whole
// executions, under the class of that model, which other models' requests would wait for too. So a
// job whose memory is promised to others waits until some is left, and gives it back, with the rows
// that are done, when a model or its requests need it. One job runs at a time; accounts take turns.
//
// Concurrency: every method may be called by any number of goroutines.
//
// What it refuses: files that are no .npz for the model's inputs, or of other rows or types; more
// jobs and bytes of an account than its bounds; what the disk has no room for; a key with another
// request (422) and one whose request is still under way (409); models whose outputs have no fixed
// size in NumPy's form.
package jobs
