package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// The variables that say which server commands ask, and with which token.
const (
	serverVariable = "WEIR_SERVER"
	tokenVariable  = "WEIR_TOKEN"
)

// usualServer is the one that weir up is without flags.
const usualServer = "http://localhost:8000"

// remoteFlags are those of commands that ask a server.
type remoteFlags struct {
	server string
	ca     string
}

func (f *remoteFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.server, "server", "", "the `URL` of the server (default: $"+
		serverVariable+", else "+usualServer+")")
	c.Flags().StringVar(&f.ca, "ca", "", "the `FILE` of the authorities for the server's "+
		"certificate, in PEM (default: the system's)")
}

// remote is a server that is asked.
type remote struct {
	url    string
	token  string
	client *http.Client
}

// open says which server is meant; nothing is sent yet.
func (f *remoteFlags) open() (*remote, error) {
	text := cmp.Or(f.server, os.Getenv(serverVariable), usualServer)
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("server %.200q: give a URL such as %s", text, usualServer)
	}
	r := &remote{strings.TrimRight(text, "/"), strings.TrimSpace(os.Getenv(tokenVariable)),
		&http.Client{Timeout: time.Minute}}
	ip := net.ParseIP(u.Hostname())
	if local := u.Hostname() == "localhost" || ip.IsLoopback(); r.token != "" && !local &&
		u.Scheme == "http" {
		return nil, fmt.Errorf("server %s: others on the way could read the token: give its https "+
			"URL", text)
	}
	if f.ca == "" {
		return r, nil
	}
	return r, r.trust(f.ca)
}

// trust has the server's certificate be one of an authority of a file.
func (r *remote) trust(file string) error {
	pem, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("--ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return fmt.Errorf("--ca %s has no certificate in PEM", file)
	}
	r.client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool},
		Proxy: http.ProxyFromEnvironment}
	return nil
}

// mostAnswer bounds what a server's answer may take.
const mostAnswer = 64 << 20

// do asks for one thing: body goes out as JSON unless it is nil, and the answer comes into to
// unless that is nil. Errors say what the server said.
func (r *remote) do(ctx context.Context, method, path string, body, to any) error {
	q, err := r.request(ctx, method, path, body)
	if err != nil {
		return err
	}
	answer, err := r.client.Do(q)
	if err != nil {
		var unknown x509.UnknownAuthorityError
		if errors.As(err, &unknown) {
			err = fmt.Errorf("%w: --ca names the file of its authority", err)
		}
		return failed(fmt.Errorf("server %s does not answer: %w", r.url, err))
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(io.LimitReader(answer.Body, mostAnswer))
	if err != nil {
		return failed(fmt.Errorf("server %s: %w", r.url, err))
	}
	if answer.StatusCode >= 400 {
		return r.problem(answer, b)
	}
	if to == nil {
		return nil
	}
	if err := json.Unmarshal(b, to); err != nil {
		return failed(fmt.Errorf("server %s: %s %s: %w", r.url, method, path, err))
	}
	return nil
}

// request is one with the token, and with a body in JSON if there is one.
func (r *remote) request(ctx context.Context, method, path string, body any) (*http.Request,
	error) {
	var sent io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(b)
	}
	q, err := http.NewRequestWithContext(ctx, method, r.url+path, sent)
	if err == nil && r.token != "" {
		q.Header.Set("Authorization", "Bearer "+r.token)
	}
	return q, err
}

// missing is an error about what a server does not have.
type missing struct{ error }

// Unwrap gives the cause to errors.Is.
func (e *missing) Unwrap() error { return e.error }

// problem is the error of an answer that is one.
func (r *remote) problem(answer *http.Response, body []byte) error {
	var said struct{ Error string }
	if json.Unmarshal(body, &said) != nil || said.Error == "" {
		said.Error = answer.Status
	}
	err := fmt.Errorf("server %s: %s", r.url, said.Error)
	if answer.StatusCode == http.StatusNotFound {
		err = &missing{err}
	}
	if answer.StatusCode == http.StatusUnauthorized {
		err = fmt.Errorf("%w: $%s is what this command sends", err, tokenVariable)
	}
	return failed(err)
}
