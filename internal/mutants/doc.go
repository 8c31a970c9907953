// Mutants measures the tests: it draws small changes of the code at random, each of which should
// turn a test red, and tells which did not.
//
//	go run ./internal/mutants -n 240
//	go run ./internal/mutants -n 20 -targets op,pass -seed 7 -json report.json
//	go run ./internal/mutants -n 20 -targets op,pass -seed 7 -again report.json
//
// Meet first: [Target] says what is changed and whose tests have to notice; [Mutant] is one change;
// [Source] finds the changes that a package's files allow.
//
// All changes are compiled at once: a function with changes begins with a choice, by an environment
// variable, between its own body and the changed copies of it, and the tests are built of these
// files by way of go build's -overlay. So a test binary is built once. Each test runs once by
// itself without a change, which tells what it costs and which functions with changes it reaches; a
// mutant then costs one run of the cheapest tests that reach its function, and further ones of the
// others until one fails. The checkout is not written to. Tests run without outside data and with
// an empty cache folder, -short, under a limit of processor time and memory; a mutant that makes a
// test go on for more than six times its processor time counts as noticed.
//
// The draw is the hash of the seed and of what a mutant changes, without its line: code that is
// added or mended elsewhere leaves the mutants of a seed as they are, and their names in known.txt.
//
// Kinds of changes are those of the literature (Jia and Harman 2011, An Analysis and Survey of the
// Development of Mutation Testing) for arithmetic, relational and logical operators, constants,
// removed statements, swapped arguments and early returns. What an error or a panic says, and the
// capacity of a slice, are left alone: tests should not hold either. So is what can change nothing:
// swapped arguments of min, max and Equal, and < for <= where the statement only sets one operand
// to the other. Functions that call recover themselves are left alone, as a copy of them cannot.
//
// A mutant that survives is either a gap in the tests or changes nothing that may be relied on;
// known.txt lists those of the second kind with the reason. The score counts them as survivors.
// Exit code 1 says that a mutant survives that the list does not name, or that fewer than -score
// were noticed.
//
// Concurrency: mutants run side by side, -p at a time, each in processes of its own.
//
// What it refuses: a test that reaches a changed function and fails without a change.
package main
