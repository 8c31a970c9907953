package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/weirgpu/weir/server/client"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/traffic"
	"github.com/weirgpu/weir/tensor"
)

// values is how many numbers a request has.
const values = 64

// open makes ready the ways in which a server is asked, and holds its answers by each.
func (p *peer) open() error {
	x := make([]float32, values)
	for i := range x {
		x[i] = float32(i) / 8
	}
	r := &oip.Request{Inputs: []oip.Input{{Name: "x", Tensor: tensor.From(x, values)}}}
	binary, err := client.Prepare("identity", "", r)
	if err != nil {
		return err
	}
	call, err := client.PrepareCall("identity", "", r)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"inputs": []any{map[string]any{"name": "x",
		"datatype": "FP32", "shape": []int{values}, "data": x}}})
	if err != nil {
		return err
	}
	c := &client.Client{URL: "http://" + p.HTTP, HTTP: &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 64, DisableCompression: true}}}
	g, err := client.Dial(context.Background(), "http://"+p.GRPC, "", nil)
	if err != nil {
		return err
	}
	p.ends = append(p.ends, g.Close)
	url := c.URL + "/v2/models/identity/infer"
	p.ways = map[string]traffic.Ask{
		"binary over HTTP": func(ctx context.Context) error { return c.Send(ctx, binary) },
		"gRPC":             func(ctx context.Context) error { return g.Send(ctx, call) },
		"JSON over HTTP":   func(ctx context.Context) error { return post(ctx, c.HTTP, url, body) },
	}
	return p.holds(url, c.HTTP, body, x)
}

// holds reports a server that does not answer what it was sent.
func (p *peer) holds(url string, c *http.Client, body []byte, x []float32) error {
	answer, err := c.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var got struct {
		Outputs []struct{ Data []float32 }
	}
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil {
		return err
	}
	if len(got.Outputs) != 1 || fmt.Sprint(got.Outputs[0].Data) != fmt.Sprint(x) {
		return fmt.Errorf("%s answered %v", p.Name, got)
	}
	return nil
}

// post sends JSON.
func post(ctx context.Context, c *http.Client, url string, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", answer.Status)
	}
	return nil
}
