package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirgpu/weir/server/client"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/traffic"
)

// loadFlags are the flags of bench for a server.
type loadFlags struct {
	model, version string
	ca             string
	rate           float64
	constant       bool
	duration       time.Duration
	connections    int
	deadline       time.Duration
	timeout        time.Duration
	shared         []string // flags of a model's benchmark that a server's takes too
}

// loadResult is what was measured of a server.
type loadResult struct {
	Server      string  `json:"server"`
	Protocol    string  `json:"protocol"` // http or grpc
	Model       string  `json:"model"`
	Version     string  `json:"version"`    // that was asked for, "" for the server's choice
	Rate        float64 `json:"rate_per_s"` // at which requests were due; 0: none
	Connections int     `json:"connections"`
	DeadlineMS  float64 `json:"deadline_ms"`
	traffic.Result
}

// callsAConnection is how many calls a connection has under way in an open loop: more than servers
// of gRPC take are refused.
const callsAConnection = 100

func (f *loadFlags) add(c *cobra.Command) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.StringVar(&f.model, "model", "", "of a server: the `NAME` of the model (default: its only "+
		"one)")
	own.StringVar(&f.version, "version", "", "of a server: the `VERSION` of the model (default: "+
		"the one that the server chooses)")
	own.StringVar(&f.ca, "ca", "", "of a server: the `FILE` of the authorities for its "+
		"certificate, in PEM (default: the system's)")
	own.Float64Var(&f.rate, "rate", 100, "of a server: requests due a second, whatever becomes of "+
		"those before; 0: each connection asks again once it is answered")
	own.BoolVar(&f.constant, "constant", false, "of a server: requests are due evenly, not at "+
		"random")
	own.DurationVar(&f.duration, "duration", 10*time.Second, "of a server: how long requests are "+
		"sent")
	own.IntVar(&f.connections, "connections", 0, "of a server: connections; one has one request "+
		"at a time, over gRPC with a rate 100 (default: 64; over gRPC, or without a rate, 1)")
	own.DurationVar(&f.deadline, "deadline", 0, "of a server: how long an answer may take to be "+
		"in time, which the server is told (default: any time)")
	own.DurationVar(&f.timeout, "timeout", 10*time.Second, "of a server: how long an answer is "+
		"waited for")
	own.VisitAll(func(of *pflag.Flag) { f.shared = append(f.shared, of.Name) })
	c.Flags().AddFlagSet(own)
	f.shared = append(f.shared, "input", "shape", "seed", "cast", "mean", "std", "layout", "json")
}

// isServer reports whether the argument of bench is a server's URL, and not a model's file.
func isServer(arg string) bool {
	for _, scheme := range []string{"http", "https", "grpc", "grpcs"} {
		if strings.HasPrefix(arg, scheme+"://") {
			return true
		}
	}
	return false
}

// check refuses flags that mean nothing for what is measured.
func (f *loadFlags) check(c *cobra.Command, server bool) (err error) {
	c.Flags().Visit(func(of *pflag.Flag) {
		switch taken := slices.Contains(f.shared, of.Name); {
		case server && !taken:
			err = fmt.Errorf("--%s is about a model's own runs: leave it out for a server", of.Name)
		case !server && taken && strings.HasPrefix(of.Usage, "of a server:"):
			err = fmt.Errorf("--%s is about a server: give its URL, such as %s", of.Name,
				usualServer)
		}
	})
	return err
}

// plan says when requests are sent, and over how many connections.
func (f *loadFlags) plan(grpc bool, seed uint64) (traffic.Plan, int) {
	connections := f.connections
	if connections == 0 {
		if connections = 64; grpc || f.rate == 0 {
			connections = 1
		}
	}
	p := traffic.Plan{Rate: f.rate, Constant: f.constant, Clients: connections,
		Duration: f.duration, Timeout: f.timeout, Deadline: f.deadline, Seed: seed}
	if grpc && f.rate > 0 {
		p.Clients *= callsAConnection
	}
	return p, connections
}

// target is a server that is measured.
type target interface {
	// Index lists its models.
	Index(ctx context.Context) ([]oip.IndexEntry, error)
	Metadata(ctx context.Context, model, version string) (oip.Metadata, error)
	// prepare makes what sends a request again and again.
	prepare(model, version string, r *oip.Request) (traffic.Ask, error)
	close()
}

// run measures a server, until a signal where one comes, and shows what was measured.
func (f *loadFlags) run(c *cobra.Command, url string, inputs *inputFlags, asJSON bool) error {
	grpc := strings.HasPrefix(url, "grpc")
	p, connections := f.plan(grpc, inputs.seed)
	if err := errors.Join(p.Validate(), inputs.images.Check()); err != nil {
		return err
	}
	r, err := (&remoteFlags{server: strings.Replace(url, "grpc", "http", 1), ca: f.ca}).open()
	if err != nil {
		return err
	}
	res := &loadResult{Server: url, Protocol: "http", Version: f.version, Rate: f.rate,
		Connections: connections, DeadlineMS: ms(f.deadline)}
	ctx, cancel := context.WithTimeout(c.Context(), f.timeout)
	defer cancel()
	var to target
	if grpc {
		res.Protocol = "grpc"
		to, err = dialAll(ctx, r, connections)
	} else {
		to = overHTTP(r, connections)
	}
	r.url = url
	if err != nil {
		return r.failure(err)
	}
	defer to.close()
	ask, err := f.ready(ctx, c, r, to, inputs, res)
	if err != nil {
		return err
	}
	measured, err := traffic.Run(c.Context(), p, ask, func(err error) (string, bool) {
		return client.Kind(err), client.Refused(err)
	})
	if err != nil {
		return err
	}
	if res.Result = *measured; asJSON {
		return errors.Join(printJSON(c.OutOrStdout(), res), c.Context().Err())
	}
	res.print(c)
	return c.Context().Err()
}

// ready makes the request and sends it once, so that what is wrong with it is said at once.
func (f *loadFlags) ready(ctx context.Context, c *cobra.Command, r *remote, to target,
	inputs *inputFlags, res *loadResult) (traffic.Ask, error) {
	if res.Model = f.model; f.model == "" {
		list, err := to.Index(ctx)
		if err != nil {
			return nil, r.failure(err)
		}
		if res.Model, err = only(list); err != nil {
			return nil, fmt.Errorf("server %s: %w", res.Server, err)
		}
	}
	m, err := to.Metadata(ctx, res.Model, f.version)
	if err != nil {
		return nil, r.failure(err)
	}
	q, err := inputs.fill(c, res.Server, m)
	if err != nil {
		return nil, err
	}
	ask, err := to.prepare(res.Model, f.version, q)
	if err == nil {
		err = ask(ctx)
	}
	if err != nil {
		return nil, r.failure(err)
	}
	if f.deadline > 0 {
		q.Parameters = oip.Parameters{"timeout": f.deadline.Microseconds()}
		return to.prepare(res.Model, f.version, q)
	}
	return ask, nil
}

// only is the model of a server that has one.
func only(list []oip.IndexEntry) (string, error) {
	var names []string
	for _, m := range list {
		if !slices.Contains(names, m.Name) {
			names = append(names, m.Name)
		}
	}
	if len(names) == 1 {
		return names[0], nil
	}
	return "", fmt.Errorf("it has %d models: say which with --model: %.200s", len(names),
		strings.Join(names, ", "))
}

// plainTarget is a server over HTTP.
type plainTarget struct{ *client.Client }

func overHTTP(r *remote, connections int) plainTarget {
	t := &http.Transport{}
	if own, ok := r.client.Transport.(*http.Transport); ok {
		t = own
	}
	t.MaxConnsPerHost, t.MaxIdleConnsPerHost = connections, connections
	t.DisableCompression = true
	r.client = &http.Client{Transport: t} // the plan has timeouts
	return plainTarget{r.asks()}
}

func (t plainTarget) prepare(model, version string, r *oip.Request) (traffic.Ask, error) {
	p, err := client.Prepare(model, version, r)
	return func(ctx context.Context) error { return t.Send(ctx, p) }, err
}

func (t plainTarget) close() { t.HTTP.CloseIdleConnections() }

// calls is a server over gRPC, whose connections wait for requests.
type calls struct {
	*client.Calls
	all  []*client.Calls
	free chan *client.Calls
}

func dialAll(ctx context.Context, r *remote, connections int) (*calls, error) {
	t := &calls{free: make(chan *client.Calls, connections*callsAConnection)}
	own, _ := r.client.Transport.(*http.Transport)
	for range connections {
		c, err := client.Dial(ctx, r.url, r.token, cmp.Or(own, &http.Transport{}).TLSClientConfig)
		if err != nil {
			t.close()
			return nil, err
		}
		t.all = append(t.all, c)
	}
	t.Calls = t.all[0]
	for range callsAConnection { // requests are spread over all of them
		for _, c := range t.all {
			t.free <- c
		}
	}
	return t, nil
}

func (t *calls) prepare(model, version string, r *oip.Request) (traffic.Ask, error) {
	p, err := client.PrepareCall(model, version, r)
	return func(ctx context.Context) error {
		c := <-t.free
		defer func() { t.free <- c }()
		return c.Send(ctx, p)
	}, err
}

func (t *calls) close() {
	for _, c := range t.all {
		c.Close()
	}
}
