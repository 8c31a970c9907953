package main

import (
	"net"
	"sync"
)

// limited is a listener that has as many connections at a time as there is room for; others wait
// where the system keeps them.
type limited struct {
	net.Listener
	room chan struct{}
	done chan struct{}
	end  func()
}

// limit returns a listener that has n connections of on at most at a time. They have a method
// NetConn, for who must know the connection itself.
func limit(on net.Listener, n int) net.Listener {
	l := &limited{Listener: on, room: make(chan struct{}, n), done: make(chan struct{})}
	l.end = sync.OnceFunc(func() { close(l.done) })
	return l
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.room <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	leave := sync.OnceFunc(func() { <-l.room })
	c, err := l.Listener.Accept()
	if err != nil {
		leave()
		return nil, err
	}
	return &limitedConn{c, leave}, nil
}

// Close implements net.Listener.
func (l *limited) Close() error {
	l.end()
	return l.Listener.Close()
}

// limitedConn is a connection that has a place.
type limitedConn struct {
	net.Conn
	leave func()
}

// NetConn is the connection itself.
func (c *limitedConn) NetConn() net.Conn { return c.Conn }

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
