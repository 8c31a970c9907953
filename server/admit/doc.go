// Package admit decides, for the models that answer requests on one device, which requests are
// admitted, which are refused at once, and which run next and together.
//
// Meet first: [Control], made by [New]; [Control.Arrive], which takes a request or refuses it with
// a [Refusal]; and [Control.Decide], which says which batch is to start, who was put out since, and
// when to ask again. [Model] says how a model's requests wait and are put together.
//
// One batch is under way at a time. The requests that wait are a plan: a sequence of batches, each
// with the time that it is forecast to take. The plan is kept such that all in it are on time if
// forecasts hold (plan.go). A request that has no place in it is refused when it arrives; one that
// can no longer be on time, because a forecast did not hold, is put out when that is known.
//
// The order is by claim, which a request has for good when it arrives: the start tag of its account
// (fair.go) and the level of its class and priority (level.go). An account that floods has later
// tags, so that others go before it; a less urgent level is later by a fixed amount of virtual
// time. No later request has an earlier tag than the one that is served, so that nobody starves:
// before a request starts, more urgent ones run for [Options.Patience] at most a class, times the
// weights of the accounts that have requests.
//
// Promises to late comers with a better claim and to those who wait can contradict each other. Then
// the one who waits is put out ([ErrOutranked]), if its claim is worse by more than the longest
// batch, and else the late comer is refused. Among requests of one account and one level nobody is
// put out for another: each that is admitted is on time.
//
// Times are time.Duration since an epoch that the caller chooses. The package reads no clock and
// starts no goroutine, and the same calls give the same answers. A Control must be used by one
// goroutine at a time.
//
// What it refuses: requests beyond the bounds of a queue, those that cannot be on time, and those
// for models that leave.
package admit
