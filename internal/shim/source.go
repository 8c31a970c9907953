//go:build !weirshim

package shim

// carried is nothing: this is a build from source, which compiles the library when it is first
// needed.
var carried []byte
