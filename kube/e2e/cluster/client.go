package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Client speaks to the API server in JSON.
type Client struct {
	url, token string
	http       http.Client
}

// ErrNotFound: the server has no such object.
var ErrNotFound = errors.New("not found")

// newClient trusts whoever answers: the server's certificate is its own, made at its start on this
// machine.
func newClient(url, token string) *Client {
	return &Client{url, token, http.Client{Timeout: 30 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
			MaxIdleConnsPerHost: 16}}}
}

// Text is what a path answers.
func (c *Client) Text(ctx context.Context, path string) (string, error) {
	text, err := c.do(ctx, http.MethodGet, path, "", nil)
	return string(text), err
}

// Get reads the object or the list at a path.
func (c *Client) Get(ctx context.Context, path string, into any) error {
	text, err := c.do(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// Has reports whether there is an object at a path.
func (c *Client) Has(ctx context.Context, path string) (bool, error) {
	_, err := c.do(ctx, http.MethodGet, path, "", nil)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Create makes an object at the path of its kind.
func (c *Client) Create(ctx context.Context, path string, object any) error {
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	_, err = c.do(ctx, http.MethodPost, path, "application/json", text)
	return err
}

// Delete has an object go at once; one that is not there is no error.
func (c *Client) Delete(ctx context.Context, path string) error {
	_, err := c.do(ctx, http.MethodDelete, path, "application/json",
		[]byte(`{"gracePeriodSeconds":0,"propagationPolicy":"Background"}`))
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// do asks, and has the server's own words in the error of what it refuses.
func (c *Client) do(ctx context.Context, method, path, kind string, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode < 300 {
		return text, err
	}
	var status struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(text, &status) != nil || status.Message == "" {
		status.Message = strings.TrimSpace(string(text))
	}
	if answer.StatusCode == http.StatusNotFound {
		return nil, fmt.Errorf("%s %s: %w: %s", method, path, ErrNotFound, status.Message)
	}
	return nil, fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, status.Message)
}
