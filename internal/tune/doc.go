// Package tune finds, by measuring, the fastest way to compute each step of a model for which there
// are several, such as a convolution as a product of matrices or in transformed tiles. A plan takes
// what a cost model estimates; this takes its place where measured times say that another way is
// faster.
//
// Meet first: [Run] measures a model and returns a [Result], whose Choices plans are compiled with
// from then on (plan.Options.Choices) and which package plan/cache keeps.
//
// Steps are timed inside runs of the whole model, so each finds the caches as it finds them in use.
// There is one plan for the first way of every step, one for the second, and so on; they take
// turns, and a step's times are compared within a round, so that what slows the machine down for a
// while slows all ways down. What seems faster is put into one plan and compared once more, by
// fresh rounds, with the plan of the cost model, loaded twice, as it matters where in memory a plan
// comes to lie: a way is taken only where the median over all rounds, and the least time of all,
// are each better by more than [Gain] both times.
//
// Results depend on the choices by rounding, so measuring happens when it is asked for and never by
// itself: with equal choices a model gives equal bits, on any number of threads.
//
// Concurrency: two calls of Run that use the machine at the same time measure each other.
//
// What it refuses: nothing of its own. Steps inside the bodies of Loop and Scan, and of a branch
// that the inputs do not take, are not timed and keep the cost model's choice.
package tune
