// Package pagetest opens the pages that weir writes in a real browser, headless Chromium, and
// measures them there: contrast (W3C, Web Content Accessibility Guidelines 2.2, level AA), what
// lies outside of the window or on something else, errors, heights, and where the keyboard's focus
// is. It prints them, too, and reads the PDF: all text is there as text, within the margins and
// large enough to read, no chart or row is cut between sheets, and no head stands alone at the end
// of one.
//
// The driver of the browser is imported by tests alone: a program that imports weir neither
// downloads nor contains it (Go Modules Reference, Module graph pruning). The tests look for
// chromium, chromium-headless-shell, google-chrome or $WEIR_CHROMIUM and are skipped where there is
// none, and by -short. With $WEIR_SCREENSHOTS they keep a picture of each view, and the PDF files,
// in that folder.
//
// Meet first: TestPages and TestPrint. Concurrency: none. What it refuses: nothing, it has tests
// only.
package pagetest
