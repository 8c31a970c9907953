//go:build !unix

package main

// onHangup does nothing: this system has no such signal.
func onHangup(func()) func() { return func() {} }
