package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/audit"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/store"
)

// peopleFlags say who may ask a server, and how they are known.
type peopleFlags struct {
	state       string
	accounts    bool
	certificate string
	key         string
	clientCA    string
	oidc        auth.OIDC
	checkpoints string
	handed      handed // sockets that are listened on already
}

func (f *peopleFlags) add(c *cobra.Command) {
	addState(c, &f.state)
	c.Flags().BoolVar(&f.accounts, "accounts", false, "ask who requests are by, on loopback "+
		"addresses too (default: on others, with --tls-client-ca, with --oidc-issuer, and where "+
		"--state has accounts)")
	c.Flags().StringVar(&f.certificate, "tls-cert", "", "the `FILE` of the certificate with its "+
		"chain, in PEM; it is read again when it changes")
	c.Flags().StringVar(&f.key, "tls-key", "", "the `FILE` of its key, in PEM")
	c.Flags().StringVar(&f.clientCA, "tls-client-ca", "", "the `FILE` of authorities, in PEM, "+
		"whose clients' certificates are accepted in place of tokens")
	c.Flags().StringVar(&f.oidc.Issuer, "oidc-issuer", "", "the `URL` of an issuer of OpenID "+
		"Connect whose tokens are accepted")
	c.Flags().StringVar(&f.oidc.Audience, "oidc-audience", "", "what tokens of it have in aud "+
		"that are for this server")
	c.Flags().StringVar(&f.checkpoints, "audit-checkpoints", "", "the `FILE` to which signed "+
		"checkpoints of the audit are added, best where this server cannot change what is there")
}

// check reports flags that do not fit together.
func (f *peopleFlags) check() error {
	switch {
	case (f.certificate == "") != (f.key == ""):
		return errors.New("--tls-cert and --tls-key: give both")
	case f.clientCA != "" && f.certificate == "":
		return errors.New("--tls-client-ca: certificates are shown over TLS only: give " +
			"--tls-cert and --tls-key too")
	}
	return f.oidc.Check()
}

// asked reports whether requests need accounts for what the flags say, on an address.
func (f *peopleFlags) asked(ip net.IP) bool {
	return f.accounts || f.clientCA != "" || f.oidc != auth.OIDC{} || f.checkpoints != "" ||
		!ip.IsLoopback()
}

// mostConnections is how many clients are connected to an address at a time; further ones wait.
// Each takes some 20 KB, and a descriptor.
const mostConnections = 4096

// listen listens on an address, over TLS where there is a certificate, with protocols that may be
// chosen. One that other machines reach needs that.
func (f *peopleFlags) listen(flag, address string, log *slog.Logger,
	protocols ...string) (net.Listener, error) {
	on := f.handed[strings.TrimPrefix(flag, "--")]
	if on != nil {
		address = on.Addr().String()
	}
	a, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", flag, address, err)
	}
	if !a.IP.IsLoopback() && f.certificate == "" {
		return nil, fmt.Errorf("%s %s: other machines may reach this address, and could read and "+
			"change what is sent: give --tls-cert and --tls-key, or answer on a loopback address "+
			"such as localhost:8000", flag, address)
	}
	var files *auth.TLS
	if f.certificate != "" {
		if files, err = auth.NewTLS(f.certificate, f.key, f.clientCA, log, nil); err != nil {
			return nil, err
		}
	}
	if on == nil {
		if on, err = net.ListenTCP("tcp", a); err != nil {
			return nil, failed(fmt.Errorf("%s %s: %w", flag, address, err))
		}
	}
	bounded := limit(on, mostConnections)
	if files == nil {
		return bounded, nil
	}
	return tls.NewListener(bounded, files.Config(protocols...)), nil
}

// people is who may ask a server.
type people struct {
	state *state      // nil where nothing is kept
	guard *auth.Guard // nil where requests need no account
	first string      // the file with the first token, if it was made now
}

// open opens the state, where requests need accounts or --state names one. Nothing is written
// otherwise.
func (f *peopleFlags) open(ctx context.Context, ip net.IP, log *slog.Logger) (*people, error) {
	p := &people{}
	asked := f.asked(ip)
	if !asked && f.state == "" {
		return p, nil
	}
	var err error
	if p.state, err = openStateWith(ctx, f.state, audit.Options{Checkpoints: f.checkpoints,
		Log: log}); err != nil {
		return nil, failed(err)
	}
	if !asked && len(p.state.book.Accounts()) == 0 {
		return p, nil
	}
	p.guard, err = auth.NewGuard(p.state.book, p.state.log, f.oidc, nil)
	if err == nil {
		err = p.begin(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// kept is where the server keeps what is to outlive it; nil for nowhere.
func (p *people) kept() *store.Store {
	if p.state == nil {
		return nil
	}
	return p.state.store
}

// begin makes the first token where nobody could administer the server, and records the start.
func (p *people) begin(ctx context.Context) error {
	path := filepath.Join(p.state.store.Dir(), "admin-token")
	info, err := os.Stat(path)
	if interrupted := err == nil && info.Size() == 0; !p.state.book.HasAdmin() || interrupted {
		if err := p.make(ctx, path); err != nil {
			return failed(err)
		}
		p.first = path
	}
	return failed(p.state.log.Record(ctx, audit.Event{What: "server start", Result: audit.OK}))
}

// make makes the first token, in a file: logs are kept and read by many. The file is empty until
// the token is in it, so that a start that was interrupted meanwhile is made up for by the next.
func (p *people) make(ctx context.Context, path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	text, err := p.state.admin(ctx, firstAccount)
	if err == nil {
		_, err = f.WriteString(text + "\n")
	}
	return errors.Join(err, f.Sync(), f.Close())
}

// serve puts the accounts before a server's endpoints, and their own beside them.
func (p *people) serve(s *server.Server) {
	if p.guard == nil {
		return
	}
	for pattern, h := range auth.API(p.state.book, p.state.store) {
		s.Handle(pattern, h)
	}
	s.Use(p.guard.HTTP)
}

// close ends what open opened.
func (p *people) close() error {
	if p.state == nil {
		return nil
	}
	var err error
	if p.guard != nil {
		err = p.state.log.Record(context.Background(), audit.Event{What: "server stop",
			Result: audit.OK})
	}
	return errors.Join(err, p.state.close())
}
