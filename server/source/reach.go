package source

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"syscall"
	"time"
)

// Reach is where connections may go that somebody named a host for. What that host sends elsewhere,
// by a redirection or by the address of who gives tokens, may lead to hosts that are as far from
// this machine as it is, or farther: never from the internet to this network, nor from either to
// this machine or to the link's own addresses, where clouds have their machines' credentials
// (169.254.169.254). A proxy of the environment (HTTPS_PROXY) is connected to wherever it is, and
// decides then by itself.
type Reach struct {
	Host string // without a port

	mu    sync.Mutex
	near  int             // of the host, once it was connected to
	known bool            // it was
	proxy map[string]bool // hosts of proxies
}

// The distances, from far to near.
const (
	public = iota
	private
	link
	own
)

// distance is that of an address.
func distance(a netip.Addr) int {
	a = a.Unmap()
	switch {
	case a.IsLoopback() || a.IsUnspecified():
		return own
	case a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsInterfaceLocalMulticast():
		return link
	case a.IsPrivate() || shared.Contains(a) || mapped.Contains(a) && distance(inner(a)) > public:
		return private
	}
	return public
}

var (
	shared = netip.MustParsePrefix("100.64.0.0/10") // RFC 6598: behind a carrier's translation
	mapped = netip.MustParsePrefix("64:ff9b::/96")  // RFC 6052: IPv4 behind a translator
)

// inner is the IPv4 address in one of a translator.
func inner(a netip.Addr) netip.Addr {
	b := a.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}

// Transport connects within the reach.
func (r *Reach) Transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = 30 * time.Second
	t.DisableCompression = true // what is kept compressed is brought as it is, with its length
	t.Proxy = r.through
	t.DialContext = r.dial
	return t
}

// through is the proxy of the environment.
func (r *Reach) through(q *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(q)
	if u != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.proxy == nil {
			r.proxy = map[string]bool{}
		}
		r.proxy[u.Hostname()] = true
	}
	return u, err
}

func (r *Reach) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	proxy := r.proxy[host]
	r.mu.Unlock()
	d := net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}
	switch {
	case proxy:
	case host == r.Host:
		d.Control = r.learn
	default:
		d.Control = r.check
	}
	return d.DialContext(ctx, network, address)
}

// learn notes how near the host itself is: the farthest of its addresses, since who answers for a
// name may add near ones to it.
func (r *Reach) learn(_, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := distance(a.Addr()); !r.known || d < r.near {
		r.near, r.known = d, true
	}
	return nil
}

// check refuses an address that is nearer than the host.
func (r *Reach) check(_, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := distance(a.Addr()); d > r.near {
		return fmt.Errorf("%s sends to %s: %w", r.Host, address, ErrReach)
	}
	return nil
}

// redirect refuses to leave TLS, and to go round.
func (r *Reach) redirect(to *http.Request, via []*http.Request) error {
	if len(via) >= 5 {
		return fmt.Errorf("%s redirects more than %d times", r.Host, len(via)-1)
	}
	if via[len(via)-1].URL.Scheme == "https" && to.URL.Scheme != "https" {
		return fmt.Errorf("%s redirects to %.200s, which is not encrypted", r.Host, to.URL)
	}
	return nil
}
