package main

import (
	"errors"
	"log/slog"
	"net"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/server/rpc"
)

// grpcFlags say where calls over gRPC are answered.
type grpcFlags struct {
	address string
	given   func() bool // whether the user did
}

// usualGRPC is where Triton answers gRPC.
const usualGRPC = "localhost:8001"

func (f *grpcFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.address, "grpc", usualGRPC, "the `ADDRESS` to answer gRPC on; port 0 "+
		"picks one, that of --http has one port answer both, \"\" leaves it out")
	f.given = func() bool { return c.Flags().Changed("grpc") }
}

// samePort reports whether two addresses are one port; port 0 is another each time.
func samePort(a, b string) bool {
	x, err := net.ResolveTCPAddr("tcp", a)
	if err != nil {
		return false
	}
	y, err := net.ResolveTCPAddr("tcp", b)
	return err == nil && x.Port != 0 && x.String() == y.String()
}

// listen listens for gRPC, and returns the listener for HTTP, which is another where one port
// answers both. A usual address that is taken is no failure: the second is then nil.
func (f *upFlags) listen(log *slog.Logger) (http, grpc net.Listener, err error) {
	if samePort(f.grpc.address, f.address) {
		on, err := f.people.listen("--http", f.address, log, "h2", "http/1.1")
		if err != nil {
			return nil, nil, err
		}
		http, grpc = rpc.Split(on)
		return http, grpc, nil
	}
	http, err = f.people.listen("--http", f.address, log, "http/1.1")
	if err != nil || f.grpc.address == "" {
		return http, nil, err
	}
	grpc, err = f.people.listen("--grpc", f.grpc.address, log, "h2")
	if errors.Is(err, syscall.EADDRINUSE) && !f.grpc.given() {
		log.Warn("gRPC is not answered: its usual address is taken", "address", f.grpc.address)
		return http, nil, nil
	}
	if err != nil {
		return nil, nil, errors.Join(err, http.Close())
	}
	return http, grpc, nil
}
