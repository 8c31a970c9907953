package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/weirgpu/weir/server/oip/inferencepb"
)

// freePort is an address that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer on.Close()
	return on.Addr().String()
}

// TestUpGRPC: calls over gRPC are answered on a port of their own, on that of HTTP, or not at all.
func TestUpGRPC(t *testing.T) {
	one := freePort(t)
	for _, c := range []struct{ http, grpc string }{{"localhost:0", "localhost:0"}, {one, one},
		{"localhost:0", ""}} {
		printed, end := up(t, "--json", "--http", c.http, "--grpc", c.grpc)
		var got struct{ HTTP, GRPC string }
		if err := json.NewDecoder(printed).Decode(&got); err != nil {
			t.Fatal(err)
		}
		if same := got.HTTP == "http://"+got.GRPC; same != (c.http == one) ||
			(got.GRPC == "") != (c.grpc == "") {
			t.Errorf("%+v: printed %+v", c, got)
		}
		r, err := http.Get(got.HTTP + "/v2/health/ready")
		if err != nil {
			t.Fatal(err)
		}
		if _ = r.Body.Close(); r.StatusCode != http.StatusOK {
			t.Errorf("%+v: %s", c, r.Status)
		}
		if got.GRPC != "" {
			if m, err := ready(t.Context(), got.GRPC); err != nil || !m.Ready {
				t.Errorf("%+v: %v, %v", c, m, err)
			}
		}
		if code := end(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
}

// ready asks over gRPC whether a server is.
func ready(ctx context.Context, address string) (*pb.ServerReadyResponse, error) {
	c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	m := &pb.ServerReadyResponse{}
	return m, c.Invoke(ctx, "/inference.GRPCInferenceService/ServerReady",
		&pb.ServerReadyRequest{}, m)
}

// TestUpGRPCTaken: an address that the user names must be free, and closed to others.
func TestUpGRPCTaken(t *testing.T) {
	on, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer on.Close()
	for address, says := range map[string]string{on.Addr().String(): "--grpc " +
		on.Addr().String(), "0.0.0.0:0": "give --tls-cert", "nonsense": "--grpc nonsense"} {
		var talk bytes.Buffer
		if code := execute(t.Context(), []string{"up", "--http", "localhost:0", "--metrics", "",
			"--grpc", address}, nil, io.Discard, &talk); code == 0 ||
			!strings.Contains(talk.String(), says) {
			t.Errorf("--grpc %s: exit code %d: %s", address, code, talk.String())
		}
	}
}
