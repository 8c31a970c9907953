package auth

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"

	"github.com/weirgpu/weir/server/oip"
)

// Peer is the client of a connection, as the system knows it: who may do what on a server without
// accounts. The system is asked the first time that it matters, since that takes a while.
type Peer struct {
	conn  net.Conn
	once  sync.Once
	owner string // "" for the user that the server is of, and root
}

// NewPeer returns the client of a connection, which has a method NetConn where it is made of
// another one, as *tls.Conn has.
func NewPeer(c net.Conn) *Peer { return &Peer{conn: c} }

type peerKey struct{}

// WithPeer returns a context of what a client asks.
func WithPeer(ctx context.Context, p *Peer) context.Context {
	return context.WithValue(ctx, peerKey{}, p)
}

// Connected is what http.Server has as ConnContext for a server without accounts.
func Connected(ctx context.Context, c net.Conn) context.Context {
	return WithPeer(ctx, NewPeer(c))
}

// strange is the owner of what clients have of which the system does not say whose they are.
const strange = "a user that the system does not name"

// name is who the client is, "" for the server's own user and root.
func (p *Peer) name() string {
	p.once.Do(func() {
		if p.conn.RemoteAddr().Network() == "pipe" {
			return // net.Pipe, of which both ends are the program's
		}
		if uid, ok := userOf(p.conn); !ok {
			p.owner = strange
		} else if uid != 0 && uid != os.Geteuid() {
			p.owner = fmt.Sprint("user ", uid)
		}
	})
	return p.owner
}

// stranger names the client of a request if it is another user of this machine, "" if not. A
// request that came by no connection is the program's own.
func stranger(ctx context.Context) string {
	if p, ok := ctx.Value(peerKey{}).(*Peer); ok {
		return p.name()
	}
	if ctx.Value(http.ServerContextKey) != nil {
		return strange // of a server of HTTP that does not say whose connections it has
	}
	return ""
}

// Owner names whose things a request is about: [Account.Owner] where the server has accounts. On
// one without, other users of the machine than the server's have what is theirs apart.
func Owner(ctx context.Context) string {
	if q, ok := ctx.Value(contextKey{}).(*request); ok {
		return q.account.Owner()
	}
	return stranger(ctx)
}

// Foreign reports whether a request to a server without accounts is of another user of the machine
// than the server's and root.
func Foreign(ctx context.Context) bool {
	_, known := ctx.Value(contextKey{}).(*request)
	return !known && stranger(ctx) != ""
}

// open reports whether other users of the machine may use an endpoint of a server without accounts:
// they may read, and have models compute.
func (e *Endpoint) open() bool {
	return e != nil && (e.Scope == Anyone || e.Scope == Self || e.Right == Read || e.Right == Infer)
}

// Owned returns a handler for a pattern of net/http.ServeMux that lets h answer the server's own
// user and root alone where the endpoint changes what is theirs; where a [Guard] has found an
// account, that decides.
func Owned(pattern string, h http.Handler) http.Handler {
	e := byPattern[pattern]
	if e.open() {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := own(r.Context(), r.Method+" "+r.URL.Path); err != nil {
			Fail(w, err)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// OwnedRPC is [Owned] for a call: the error is an *oip.Fault.
func OwnedRPC(ctx context.Context, c Call) error {
	if c.endpoint().open() {
		return nil
	}
	return own(ctx, c.Method)
}

// own refuses other users than the server's and root.
func own(ctx context.Context, what string) error {
	if Foreign(ctx) {
		return oip.Faultf(oip.Denied, "%.200s: this server has no accounts and is of user %d: %s "+
			"may read and infer, and no more; ask as that user or root, or have it begun with "+
			"--accounts", what, os.Geteuid(), stranger(ctx))
	}
	return nil
}

// byPattern is the table by the patterns of HTTP.
var byPattern = func() map[string]*Endpoint {
	all := map[string]*Endpoint{}
	for i := range Endpoints {
		for _, pattern := range Endpoints[i].HTTP {
			all[pattern] = &Endpoints[i]
		}
	}
	return all
}()
