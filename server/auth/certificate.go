package auth

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// TLS is a server's certificate and key in files, read anew when these change.
type TLS struct {
	certificate, key, clientCA string
	now                        func() time.Time
	log                        *slog.Logger

	mu     sync.Mutex
	looked time.Time    // when the files were looked at
	seen   [3]time.Time // when they had changed
	config *tls.Config
	failed error // why what they changed to is not used
}

// lookEvery is how often the files are looked at, at most: at the next connection.
const lookEvery = time.Second

// NewTLS reads a certificate with its chain, its key and, unless that is "", the certificates of
// the authorities whose clients' certificates are accepted; all in PEM. log is told when files are
// read that have changed, and why they are not; nil stands for slog.Default. now is the clock, nil
// for time.Now.
func NewTLS(certificate, key, clientCA string, log *slog.Logger, now func() time.Time) (*TLS,
	error) {
	if now == nil {
		now = time.Now
	}
	t := &TLS{certificate: certificate, key: key, clientCA: clientCA, now: now,
		log: cmp.Or(log, slog.Default())}
	t.look()
	if t.config == nil {
		return nil, t.failed
	}
	return t, nil
}

// Config is what to listen with. protocols are those that connections may choose (ALPN), such as
// http/1.1.
func (t *TLS) Config(protocols ...string) *tls.Config {
	return &tls.Config{NextProtos: protocols, MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			t.look()
			t.mu.Lock()
			defer t.mu.Unlock()
			c := t.config.Clone()
			c.NextProtos = protocols
			return c, nil
		}}
}

// Err is why the files as they are now are not used, and the ones before still are; nil if they
// are.
func (t *TLS) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

// look reads the files if they have changed. Those that do not fit together, such as while a
// certificate is there and its key is not yet, leave what was before.
func (t *TLS) look() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if t.config != nil && now.Sub(t.looked) < lookEvery {
		return
	}
	t.looked = now
	before, had := t.failed, t.config
	t.failed = t.renew()
	switch {
	case had == nil:
	case t.failed != nil && (before == nil || before.Error() != t.failed.Error()):
		t.log.Warn("the certificate stays the one before", "error", t.failed)
	case t.config != had:
		t.log.Info("the certificate was read anew", "file", t.certificate)
	}
}

// renew reads the files if they are not those that were seen.
func (t *TLS) renew() error {
	var seen [3]time.Time
	for i, path := range []string{t.certificate, t.key, t.clientCA} {
		if path == "" {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("TLS: %w", err)
		}
		seen[i] = info.ModTime()
	}
	if t.config != nil && seen == t.seen {
		return nil
	}
	c, err := t.read()
	if err != nil {
		return err // and is tried again: the other file may be under way
	}
	t.config, t.seen = c, seen
	return nil
}

func (t *TLS) read() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(t.certificate, t.key)
	if err != nil {
		return nil, fmt.Errorf("TLS: certificate %s and key %s: %w", t.certificate, t.key, err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if t.clientCA == "" {
		return c, nil
	}
	pem, err := os.ReadFile(t.clientCA)
	if err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("TLS: client authority %s: %w", t.clientCA, errNoCertificate)
	}
	// a client may have a token instead
	c.ClientAuth = tls.VerifyClientCertIfGiven
	c.SessionTicketsDisabled = true // a session would outlive the authority that let it in
	return c, nil
}

var errNoCertificate = errors.New("no certificate in PEM")
