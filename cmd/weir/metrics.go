package main

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"syscall"

	"github.com/spf13/cobra"
)

// metricsFlags say where metrics are beside the server's own address.
type metricsFlags struct {
	address string
	given   func() bool // whether the user did
}

// usualMetrics is where Triton has its metrics.
const usualMetrics = "localhost:8002"

func (f *metricsFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.address, "metrics", usualMetrics, "the `ADDRESS` of a port for metrics "+
		"alone; port 0 picks one, the address of --http or \"\" leaves them on that")
	f.given = func() bool { return c.Flags().Changed("metrics") }
}

// listen listens where metrics are asked for, which is nowhere if that is where the server answers.
// A usual address that is taken is no failure.
func (f *metricsFlags) listen(p *peopleFlags, beside net.Listener,
	log *slog.Logger) (net.Listener, error) {
	if f.address == "" {
		return nil, nil
	}
	if a, err := net.ResolveTCPAddr("tcp", f.address); err == nil &&
		a.String() == beside.Addr().String() {
		return nil, nil
	}
	on, err := p.listen("--metrics", f.address, log, "http/1.1")
	if errors.Is(err, syscall.EADDRINUSE) && !f.given() {
		log.Warn("metrics are at the address of --http alone: the usual one is taken",
			"address", f.address)
		return nil, nil
	}
	return on, err
}

// widest is the address that most can reach, of those that are listened on; nil is none.
func widest(all ...net.Listener) (ip net.IP) {
	for _, l := range all {
		if l != nil && (ip == nil || ip.IsLoopback()) {
			ip = l.Addr().(*net.TCPAddr).IP
		}
	}
	return ip
}

// metricsOnly lets h answer what is asked of metrics, and nothing else.
func metricsOnly(h http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", h)
	return mux
}
