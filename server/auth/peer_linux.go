package auth

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
)

// userOf returns whose socket is at the other end of a connection within this machine. ok is false
// where the system does not say: the client has closed it, or is elsewhere.
func userOf(c net.Conn) (uid int, ok bool) {
	for {
		outer, made := c.(interface{ NetConn() net.Conn })
		if !made {
			break
		}
		c = outer.NetConn()
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return 0, false
	}
	ours, theirs := tcp.LocalAddr().(*net.TCPAddr), tcp.RemoteAddr().(*net.TCPAddr)
	uid, ok = socketUser(theirs.AddrPort(), ours.AddrPort())
	return uid, ok && stands(tcp)
}

// stands reports whether the client's socket is there still: once it is not, another user's may
// have its port.
func stands(c *net.TCPConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	var gone error
	err = raw.Control(func(fd uintptr) { _, gone = syscall.Getpeername(int(fd)) })
	return err == nil && gone == nil
}

// The tables of sockets. A client may reach an address of IPv4 by a socket of IPv6.
const (
	sockets  = "/proc/self/net/tcp"
	sockets6 = "/proc/self/net/tcp6"
)

// socketUser is whose socket has an address and is connected to another one.
func socketUser(own, to netip.AddrPort) (uid int, ok bool) {
	if own.Addr().Unmap().Is4() {
		b, err := os.ReadFile(sockets)
		if uid, ok = rowUser(b, own, to, false); ok && err == nil {
			return uid, true
		}
	}
	b, err := os.ReadFile(sockets6)
	uid, ok = rowUser(b, own, to, true)
	return uid, ok && err == nil
}

// What the table says of a socket that does not stand yet, and the inode of one that no process has
// any more, which is as if it were root's (Linux, net/ipv4/tcp_ipv4.c, get_tcp4_sock and
// get_timewait4_sock).
const (
	connecting = "02"
	closed     = "0"
)

// rowUser finds a socket in a table as proc(5) has it.
func rowUser(table []byte, own, to netip.AddrPort, wide bool) (uid int, ok bool) {
	_, row, ok := bytes.Cut(table, []byte(": "+placed(own, wide)+" "+placed(to, wide)+" "))
	if !ok {
		return 0, false
	}
	row, _, _ = bytes.Cut(row, []byte("\n"))
	f := bytes.Fields(row) // st, queues, timer, retransmits, uid, timeout, inode
	if len(f) < 7 || string(f[0]) == connecting || string(f[6]) == closed {
		return 0, false
	}
	uid, err := strconv.Atoi(string(f[4]))
	return uid, err == nil
}

// placed is an address as the table has it: words of 32 bits as the machine has them in memory.
func placed(a netip.AddrPort, wide bool) string {
	b := a.Addr().Unmap().AsSlice()
	if wide {
		all := a.Addr().As16()
		b = all[:]
	}
	var text []byte
	for ; len(b) >= 4; b = b[4:] {
		text = fmt.Appendf(text, "%08X", binary.NativeEndian.Uint32(b))
	}
	return string(fmt.Appendf(text, ":%04X", a.Port()))
}
