package source

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"time"

	"oras.land/oras-go/v2/registry/remote/retry"
)

// What a host may take. Who waits for it is a server that begins, or somebody who loads a model.
const (
	stall = time.Minute // for the next so many bytes of a body
	pace  = 64 << 10
)

var errStalled = fmt.Errorf("no %d bytes came in %v", pace, stall)

// client asks a host, again where that is of use.
func client(host string) *http.Client {
	r := &Reach{Host: host}
	t := retry.NewTransport(&patient{r.Transport()})
	t.Policy = func() retry.Policy { return again }
	return &http.Client{Transport: t, CheckRedirect: r.redirect}
}

// again says when a request is of use once more: not where a host has been waited for as long as
// one is.
var again retry.Policy = &retry.GenericPolicy{
	Retryable: func(answer *http.Response, err error) (bool, error) {
		if e, ok := err.(net.Error); ok && e.Timeout() {
			return false, nil
		}
		return retry.DefaultPredicate(answer, err)
	},
	Backoff: retry.DefaultBackoff, MinWait: 200 * time.Millisecond, MaxWait: 3 * time.Second,
	MaxRetry: 5,
}

// patient gives requests up whose answers' bodies do not come on.
type patient struct{ to http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (p *patient) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	answer, err := p.to.RoundTrip(r.WithContext(ctx))
	if err != nil {
		cancel(nil)
		return nil, err
	}
	answer.Body = &steady{answer.Body, 0, cancel,
		time.AfterFunc(stall, func() { cancel(errStalled) })}
	return answer, nil
}

// steady is a body that is given up where it does not come on.
type steady struct {
	io.ReadCloser
	come   int // since the timer was set
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

// Read implements io.Reader.
func (s *steady) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if s.come += n; s.come >= pace {
		s.come = 0
		s.timer.Reset(stall)
	}
	return n, err
}

// Close implements io.Closer.
func (s *steady) Close() error {
	s.timer.Stop()
	err := s.ReadCloser.Close()
	s.cancel(nil)
	return err
}

// unsaid is an error without what stands behind the question mark of an address: where a registry
// sends to a store, that is the right to read from it.
type unsaid struct{ error }

var queries = regexp.MustCompile(`\?[^\s"]*`)

// Error implements error.
func (u unsaid) Error() string { return queries.ReplaceAllString(u.error.Error(), "?...") }

// Unwrap returns the error as it was.
func (u unsaid) Unwrap() error { return u.error }
