package main

import (
	"errors"
	"net"
	"testing"
	"time"
)

// TestLimit: no more connections are taken than there is room for, one that is closed gives its
// place up once, and closing the listener ends who waits for one.
func TestLimit(t *testing.T) {
	on, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	l := limit(on, 1)
	took := make(chan net.Conn)
	ended := make(chan error, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			took <- c
		}
	}()
	for range 3 {
		c, err := net.Dial("tcp", on.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	first := <-took
	select {
	case <-took:
		t.Fatal("two connections at a time")
	case <-time.After(20 * time.Millisecond):
	}
	_ = first.Close()
	_ = first.Close()
	second := <-took
	select {
	case <-took:
		t.Fatal("closing one twice made room for two")
	case <-time.After(20 * time.Millisecond):
	}
	if raw := second.(interface{ NetConn() net.Conn }).NetConn(); raw == second {
		t.Error("it is no connection of its own")
	}
	_ = l.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("waiting for room ended with %v", err)
	}
}
