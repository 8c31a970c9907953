// Package client asks a server for inferences: the Open Inference Protocol, version 2, over HTTP
// and gRPC, with all values as binary data.
//
// Meet first: [Client] and [Client.Infer]; [Prepare] and [Client.Send] for a request that is sent
// many times. [Dial], [PrepareCall] and [Calls.Send] are the same over gRPC.
//
// Concurrency: every method may be called by any number of goroutines.
//
// What it refuses: answers of more than [MostAnswer] bytes, and what is no answer of the protocol
// (oip.ErrAnswer). What the server refuses is an [Error], and over gRPC a [CallError].
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/weirgpu/weir/server/oip"
)

// MostAnswer bounds the bytes of an answer.
const MostAnswer = 1 << 30

// headerLength says how many bytes of a body are JSON (Triton, extension_binary_data.md).
const headerLength = "Inference-Header-Content-Length"

// Client is a server that is asked.
type Client struct {
	URL   string       // without a slash at its end
	Token string       // "" sends none
	HTTP  *http.Client // nil stands for http.DefaultClient
}

// Error is what a server answered in place of what was asked.
type Error struct {
	Status     int           // of HTTP
	Text       string        // what the server says
	RetryAfter time.Duration // after how long it may be asked again; 0: it does not say
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

// Prepared is a request that is ready to be sent.
type Prepared struct {
	path   string
	body   []byte
	header string
}

// Prepare makes a request for a version of a model; an empty version stands for the one that is
// served. The error is of kind oip.ErrRequest.
func Prepare(model, version string, r *oip.Request) (*Prepared, error) {
	body, header, err := r.Append(nil)
	if err != nil {
		return nil, err
	}
	return &Prepared{modelPath(model, version) + "/infer", body, strconv.Itoa(header)}, nil
}

func modelPath(model, version string) string {
	path := "/v2/models/" + url.PathEscape(model)
	if version != "" {
		path += "/versions/" + url.PathEscape(version)
	}
	return path
}

// Infer asks for an inference. Tensors of the answer are the caller's.
func (c *Client) Infer(ctx context.Context, p *Prepared) (*oip.Response, error) {
	body, header, err := c.send(ctx, p, io.ReadAll)
	if err != nil {
		return nil, err
	}
	return oip.DecodeResponse(body, header)
}

// Send is Infer for who needs no answer: its bytes are read and left.
func (c *Client) Send(ctx context.Context, p *Prepared) error {
	_, _, err := c.send(ctx, p, func(from io.Reader) ([]byte, error) {
		_, err := io.Copy(io.Discard, from)
		return nil, err
	})
	return err
}

func (c *Client) send(ctx context.Context, p *Prepared,
	read func(io.Reader) ([]byte, error)) (body []byte, header int, err error) {
	q, err := http.NewRequestWithContext(ctx, "POST", c.URL+p.path, bytes.NewReader(p.body))
	if err != nil {
		return nil, 0, err
	}
	q.Header.Set(headerLength, p.header)
	q.Header.Set("Content-Type", "application/octet-stream")
	answer, err := c.do(q)
	if err != nil {
		return nil, 0, err
	}
	defer answer.Body.Close()
	limited := &io.LimitedReader{R: answer.Body, N: MostAnswer + 1}
	body, err = read(limited)
	if err == nil && limited.N == 0 {
		err = fmt.Errorf("%w: it has more than %d bytes", oip.ErrAnswer, MostAnswer)
	}
	if err != nil {
		return nil, 0, err
	}
	header = len(body)
	if given := answer.Header.Get(headerLength); given != "" {
		if header, err = strconv.Atoi(given); err != nil {
			return nil, 0, fmt.Errorf("%w: %s is %.40q", oip.ErrAnswer, headerLength, given)
		}
	}
	return body, header, nil
}

// Metadata asks what a version of a model takes and gives; an empty version stands for the one that
// is served.
func (c *Client) Metadata(ctx context.Context, model, version string) (m oip.Metadata, err error) {
	q, err := http.NewRequestWithContext(ctx, "GET", c.URL+modelPath(model, version), nil)
	if err != nil {
		return m, err
	}
	answer, err := c.do(q)
	if err != nil {
		return m, err
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(io.LimitReader(answer.Body, MostAnswer)).Decode(&m); err != nil {
		return m, fmt.Errorf("%w: %w", oip.ErrAnswer, err)
	}
	return m, nil
}

// Index lists the models of the server that are ready.
func (c *Client) Index(ctx context.Context) (list []oip.IndexEntry, err error) {
	q, err := http.NewRequestWithContext(ctx, "POST", c.URL+"/v2/repository/index",
		strings.NewReader(`{"ready":true}`))
	if err != nil {
		return nil, err
	}
	answer, err := c.do(q)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	err = json.NewDecoder(io.LimitReader(answer.Body, MostAnswer)).Decode(&list)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", oip.ErrAnswer, err)
	}
	return list, nil
}

// do sends a request; an answer that is an error is an [Error].
func (c *Client) do(q *http.Request) (*http.Response, error) {
	if c.Token != "" {
		q.Header.Set("Authorization", "Bearer "+c.Token)
	}
	h := c.HTTP
	if h == nil {
		h = http.DefaultClient
	}
	answer, err := h.Do(q)
	if err != nil || answer.StatusCode < 400 {
		return answer, err
	}
	defer answer.Body.Close()
	const most = 64 << 10
	b, err := io.ReadAll(io.LimitReader(answer.Body, most))
	if err != nil {
		return nil, err
	}
	said := &Error{Status: answer.StatusCode}
	var failure oip.Failure
	if said.Text = answer.Status; json.Unmarshal(b, &failure) == nil && failure.Error != "" {
		said.Text = failure.Error
	}
	if n, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && n > 0 {
		said.RetryAfter = time.Duration(n) * time.Second
	}
	return nil, said
}

// Refused reports whether a server answered that it has too much to do, or too much of the account
// that asks.
func Refused(err error) bool {
	var said *Error
	var call *CallError
	switch {
	case errors.As(err, &said):
		return said.Status == http.StatusTooManyRequests ||
			said.Status == http.StatusServiceUnavailable
	case errors.As(err, &call):
		return call.Code == codes.Unavailable || call.Code == codes.ResourceExhausted
	}
	return false
}

// Kind names in a word or two what kept a request from its answer: the status of an [Error] or
// [CallError], or what happened to the connection.
func Kind(err error) string {
	var said *Error
	var call *CallError
	var network net.Error
	switch {
	case errors.As(err, &said):
		return strconv.Itoa(said.Status) + " " + http.StatusText(said.Status)
	case errors.As(err, &call):
		return call.Code.String()
	case errors.Is(err, context.DeadlineExceeded),
		errors.As(err, &network) && network.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "cut off"
	case errors.Is(err, oip.ErrAnswer):
		return "no answer of the protocol"
	}
	return "other"
}
