// Package terminal says what text for people may look like where it is written to: how wide its
// lines may be, and whether it may move the cursor, be coloured and have characters beyond ASCII.
//
// Meet first: [Width], [Live], [Color], [UTF8]; [Columns] and [Cut] measure text as terminals do,
// [Fit] breaks lines, and [Size] is how all sizes look.
//
// The environment has its say: COLUMNS (POSIX.1-2024, 8.3) is the width of what is no terminal,
// TERM=dumb is a terminal that does nothing but print (terminfo(5)), NO_COLOR (no-color.org) asks
// for no colours, and a locale of C or POSIX in LC_ALL, LC_CTYPE or LANG, the first that is set
// (POSIX.1-2024, 8.2), for ASCII alone.
//
// Concurrency: the functions share no state.
//
// What it refuses: nothing.
package terminal
