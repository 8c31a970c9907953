package auth

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirgpu/weir/server/oip"
)

// otherUser is one that no test runs as; asOther has the test's program act as it.
const (
	otherUser = 65534
	asOther   = "WEIR_TEST_OTHER_USER"
)

// TestMain makes the test's own program the other user's.
func TestMain(m *testing.M) {
	switch what, where, _ := strings.Cut(os.Getenv(asOther), " "); what {
	case "dial":
		if _, err := net.Dial("tcp", where); err != nil {
			fmt.Println(err)
		}
	case "listen":
		on, err := net.Listen("tcp", where)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(on.Addr())
		for range 2 {
			c, err := on.Accept()
			fmt.Println(NewPeer(c).name(), err)
			own, _ := net.Dial("tcp", on.Addr().String())
			defer own.Close()
		}
	default:
		os.Exit(m.Run())
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test is through
	os.Exit(0)
}

// other starts the test's program as another user, which only root may, and returns what it prints.
func other(t *testing.T, what string) *bufio.Reader {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may run a program as another user")
	}
	c := exec.Command("/proc/self/exe") // by which nobody else needs the folder
	c.Env = append(os.Environ(), asOther+"="+what)
	c.Stderr = os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUser,
		Gid: otherUser}}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = in.Close(), c.Wait() })
	return bufio.NewReader(out)
}

// listening returns a listener on a loopback address.
func listening(t *testing.T, network, address string) net.Listener {
	t.Helper()
	on, err := net.Listen(network, address)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = on.Close() })
	return on
}

// taken is the next connection of a listener.
func taken(t *testing.T, on net.Listener) net.Conn {
	t.Helper()
	c, err := on.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestPeerIsAnotherUser: the other end of a connection is known by who made its socket.
func TestPeerIsAnotherUser(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "127.1.2.3:0", "[::1]:0"} {
		on := listening(t, "tcp", at)
		other(t, "dial "+on.Addr().String())
		if got, want := NewPeer(taken(t, on)).name(), fmt.Sprint("user ", otherUser); got != want {
			t.Errorf("at %s: %q, want %q", on.Addr(), got, want)
		}
	}
}

// TestOwnersAreNoStrangers: root may do on the server of another user what that user may.
func TestOwnersAreNoStrangers(t *testing.T) {
	says := other(t, "listen 127.0.0.1:0")
	at, err := says.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", strings.TrimSpace(at))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, who := range []string{"root", "its own user"} {
		if got, err := says.ReadString('\n'); got != " <nil>\n" || err != nil {
			t.Errorf("of %s it says %q, %v", who, got, err)
		}
	}
}

// wrapped is a connection that is made of another one.
type wrapped struct{ net.Conn }

func (w wrapped) NetConn() net.Conn { return w.Conn }

// TestPeerIsOneself, by IPv4, by IPv6 and by a socket of IPv6 to an address of IPv4.
func TestPeerIsOneself(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		on := listening(t, "tcp", at)
		c, err := net.Dial("tcp", on.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		got := taken(t, on)
		if uid, ok := userOf(wrapped{wrapped{got}}); uid != os.Geteuid() || !ok {
			t.Errorf("at %s: %d, %v", at, uid, ok)
		}
		if name := NewPeer(got).name(); name != "" {
			t.Errorf("at %s: %q", at, name)
		}
	}
	on := listening(t, "tcp4", "127.0.0.1:0")
	fd, err := syscall.Socket(syscall.AF_INET6, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Skip(err)
	}
	defer syscall.Close(fd)
	at := on.Addr().(*net.TCPAddr)
	if err := syscall.Connect(fd, &syscall.SockaddrInet6{Port: at.Port,
		Addr: at.AddrPort().Addr().As16()}); err != nil {
		t.Skip(err)
	}
	if uid, ok := userOf(taken(t, on)); uid != os.Geteuid() || !ok {
		t.Errorf("by a socket of IPv6: %d, %v", uid, ok)
	}
}

// noSocket is a connection that hides what it is made of.
type noSocket struct{ at net.Addr }

func (noSocket) Read([]byte) (int, error)         { return 0, io.EOF }
func (noSocket) Write([]byte) (int, error)        { return 0, io.EOF }
func (noSocket) Close() error                     { return nil }
func (n noSocket) LocalAddr() net.Addr            { return n.at }
func (n noSocket) RemoteAddr() net.Addr           { return n.at }
func (noSocket) SetDeadline(time.Time) error      { return nil }
func (noSocket) SetReadDeadline(time.Time) error  { return nil }
func (noSocket) SetWriteDeadline(time.Time) error { return nil }

// pipe is one end of a connection within the program.
func pipe(t *testing.T) net.Conn {
	t.Helper()
	a, b := net.Pipe()
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	return a
}

// TestPeerThatIsGone: a socket that nobody has any more is no user's, and root's least of all.
func TestPeerThatIsGone(t *testing.T) {
	on := listening(t, "tcp", "127.0.0.1:0")
	for _, linger := range []int{-1, 0} { // in order, and by a reset
		c, err := net.Dial("tcp", on.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.(*net.TCPConn).SetLinger(linger); err != nil {
			t.Fatal(err)
		}
		got := taken(t, on)
		_, _ = c.Write([]byte("x"))
		_ = c.Close()
		if name := NewPeer(got).name(); name != strange {
			t.Errorf("closed with linger %d: %q", linger, name)
		}
	}
	for c, want := range map[net.Conn]string{noSocket{&net.TCPAddr{}}: strange,
		noSocket{&net.UnixAddr{}}: strange, pipe(t): ""} {
		if name := NewPeer(c).name(); name != want {
			t.Errorf("at %s: %q, want %q", c.RemoteAddr().Network(), name, want)
		}
	}
	c, err := net.Dial("tcp", on.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got := taken(t, on).(*net.TCPConn)
	if !stands(got) {
		t.Error("a connection does not stand")
	}
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
	if stands(got) {
		t.Error("one that was reset stands")
	}
}

// TestPeerWhosePortIsTaken: a connection that was reset is nobody's, though another socket has the
// same place by now.
func TestPeerWhosePortIsTaken(t *testing.T) {
	on := listening(t, "tcp", "127.0.0.1:0")
	from := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	dial := func() *net.TCPConn {
		t.Helper()
		c, err := net.DialTCP("tcp", from, on.Addr().(*net.TCPAddr))
		if err != nil {
			t.Skip(err) // who else took the port
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	c := dial()
	from = c.LocalAddr().(*net.TCPAddr)
	old := taken(t, on)
	_ = c.SetLinger(0)
	_ = c.Close()
	dial()
	if name := NewPeer(taken(t, on)).name(); name != "" {
		t.Fatalf("the later connection is %q", name)
	}
	if name := NewPeer(old).name(); name != strange {
		t.Errorf("the one before is %q", name)
	}
}

// TestRows: a row of the system's table says who has a socket where it says so for sure.
func TestRows(t *testing.T) {
	own, to := netip.MustParseAddrPort("127.0.0.1:40000"), netip.MustParseAddrPort("127.0.0.1:8000")
	at := placed(own, false) + " " + placed(to, false)
	if want := ":9C40 "; !strings.Contains(at, want) || !strings.HasSuffix(at, ":1F40") {
		t.Errorf("addresses are %s", at)
	}
	const rest = " 00000000:00000000 00:00000000 00000000 "
	for row, want := range map[string]int{
		"1: " + at + " 01" + rest + "1000 0 77 1": 1000,
		"1: " + at + " 04" + rest + "1000 0 77 1": 1000, // half closed
		"1: " + at + " 01" + rest + "0 0 77 1":    0,
		"1: " + at + " 02" + rest + "1000 0 77 1": -1, // it does not stand yet
		"1: " + at + " 06" + rest + "0 0 0 3":     -1, // nobody's any more
		"1: " + at + " 05" + rest + "0 0 0 1":     -1,
		"1: " + at + " 01" + rest + "1000":        -1,
		"1: " + at + " 01" + rest + "me 0 77 1":   -1,
		"1: " + at + "7 01" + rest + "1000 0 77":  -1,
		"":                                        -1,
	} {
		uid, ok := rowUser([]byte("head\n   "+row+"\n   2: x\n"), own, to, false)
		if ok != (want >= 0) || ok && uid != want {
			t.Errorf("%q: %d, %v", row, uid, ok)
		}
	}
}

// TestOpenRows: what other users of the machine may ask of a server without accounts reads, or has
// a model compute; a row that is new is closed to them, or stands here.
func TestOpenRows(t *testing.T) {
	open := strings.Fields("health page server+metadata model+metadata model+ready model+config " +
		"model+statistics statistics infer repository+index shared+memory+status " +
		"shared+memory+register shared+memory+unregister trace+setting log+setting metrics state " +
		"model+state training+state own+account")
	is := map[string]bool{}
	for _, name := range open {
		is[strings.ReplaceAll(name, "+", " ")] = true
	}
	for i := range Endpoints {
		e := &Endpoints[i]
		if e.open() != is[e.Name] {
			t.Errorf("%s is open: %v", e.Name, e.open())
		}
		delete(is, e.Name)
	}
	if len(is) > 0 {
		t.Errorf("there are no rows %v", is)
	}
	if (*Endpoint)(nil).open() {
		t.Error("what has no row is open")
	}
}

// TestStrangers: who is known to be another user, or not known at all, is refused what is not open,
// and has what is its own apart; a request that an account has made is its guard's to judge.
func TestStrangers(t *testing.T) {
	unknown := Connected(t.Context(), noSocket{&net.TCPAddr{}})
	if Owner(unknown) != strange || Owner(t.Context()) != "" {
		t.Errorf("owners %q and %q", Owner(unknown), Owner(t.Context()))
	}
	known := With(unknown, &Account{Name: "ann"})
	if Owner(known) != "ann" {
		t.Errorf("owner %q", Owner(known))
	}
	for _, c := range []struct {
		method string
		asks   bool
		open   bool
	}{{inference + "ModelInfer", false, true}, {inference + "RepositoryModelLoad", false, false},
		{inference + "TraceSetting", true, true}, {inference + "TraceSetting", false, false},
		{"/x.Y/Z", false, false}} {
		call := Call{Method: c.method, Asks: c.asks}
		if err := OwnedRPC(unknown, call); (err == nil) != c.open || err != nil &&
			oip.KindOf(err) != oip.Denied {
			t.Errorf("%+v: %v", c, err)
		}
		if err := OwnedRPC(known, call); err != nil {
			t.Errorf("%+v of an account: %v", c, err)
		}
	}
	h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for pattern, want := range map[string]int{"POST /v1/policy": 403, "GET /v1/state": 200,
		"GET /v1/jobs": 403, "PATCH /v1/secrets": 403} {
		method, path, _ := strings.Cut(pattern, " ")
		if got := get(servedBy(Owned(pattern, h)), method, path, "").StatusCode; got != want {
			t.Errorf("%s: status %d by a server that says nothing of connections", pattern, got)
		}
		if got := get(Owned(pattern, h), method, path, "").StatusCode; got != 200 {
			t.Errorf("%s: status %d without a server", pattern, got)
		}
	}
}

// servedBy is a handler as net/http's server calls it.
func servedBy(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.ServerContextKey,
			&http.Server{})))
	})
}
