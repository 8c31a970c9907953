package auth

import (
	"context"
	"crypto/tls"

	"github.com/weirgpu/weir/server/audit"
)

// Call is what a gRPC server knows of a call before it is answered.
type Call struct {
	Method        string               // its full name, with the service's
	Authorization []string             // metadata of that name
	TLS           *tls.ConnectionState // nil without TLS
	Peer          string               // the client's address
	// Model is the model that the message names. A call whose messages come later has Stream set
	// instead, and asks [Guard.Message] about each.
	Model  string
	Stream bool
	// Asks says of a method that may change something that this message changes nothing.
	Asks bool
}

// endpoint is the row of the table, nil where there is none.
func (c *Call) endpoint() *Endpoint {
	if asks := askedBy[c.Method]; c.Asks && asks != nil {
		return asks
	}
	return byRPC[c.Method]
}

// RPC lets a call go on, or returns an *oip.Fault. The context has the account ([From]). done is
// told how the call ended, nil for well.
func (g *Guard) RPC(ctx context.Context, c Call) (_ context.Context, done func(error), err error) {
	e := c.endpoint()
	if e == nil {
		e = &Endpoint{Name: c.Method, Right: Admin, Scope: OfAll}
	}
	done = func(error) {}
	if e.Scope == Anyone {
		return ctx, done, nil
	}
	a, err := g.account(ctx, credentials{c.Authorization, c.TLS, c.Peer})
	if err == nil && !c.Stream {
		err = g.allow(a, e, c.Model)
	}
	if err == nil && c.Stream && e.Scope != OfModel {
		err = g.allow(a, e, "")
	}
	if err != nil {
		return nil, nil, err
	}
	ctx = g.with(ctx, a)
	if e.Changes {
		done = func(err error) {
			result := audit.OK
			if err != nil {
				result = audit.Failed + ": " + err.Error()
			}
			g.record(ctx, e, a.event(e.Name, c.Model, c.Method, result))
		}
	}
	return ctx, done, nil
}

// Message lets a message of a stream go on that names a model, or returns an
// *oip.Fault.
func (g *Guard) Message(ctx context.Context, method, model string) error {
	e := byRPC[method]
	if e == nil || e.Scope != OfModel {
		return nil // which RPC has decided
	}
	return Check(ctx, e.Name, e.Right, model)
}

// byRPC is the table by method, and askedBy the rows of those methods that both ask and change
// whose messages change nothing.
var byRPC, askedBy = func() (all, asks map[string]*Endpoint) {
	all, asks = map[string]*Endpoint{}, map[string]*Endpoint{}
	for i := range Endpoints {
		e := &Endpoints[i]
		for _, method := range e.RPC {
			other := all[method]
			if other == nil || e.Changes {
				all[method] = e
			}
			if other != nil && e.Changes {
				asks[method] = other
			} else if other != nil {
				asks[method] = e
			}
		}
	}
	return all, asks
}()
