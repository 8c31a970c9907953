package main

import "net"

// dials reports whether somebody listens on a socket.
func dials(path string) bool {
	c, err := net.Dial("unix", path)
	if err != nil {
		return false
	}
	return c.Close() == nil
}
