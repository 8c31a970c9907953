// Package generated lets tests hold generated files against their generators: see [Current]. It is
// used by tests only, starts one process a call, and skips where the go command is missing.
package generated
