package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"

	"github.com/weirgpu/weir/feed"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/server/client"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

// mostRequest is how many bytes of inputs are read for a request: no server takes more.
const mostRequest = 1 << 30

// inferFlags are the flags of infer.
type inferFlags struct {
	remoteFlags
	inputs  inputFlags
	version string
	timeout time.Duration
	resultFlags
}

// inferResult is what a server answered.
type inferResult struct {
	Model   string         `json:"model"`   // its name
	Version string         `json:"version"` // that answered
	Outputs []outputResult `json:"outputs"`
	RunMS   float64        `json:"run_ms"` // from the request to its answer
}

func newInfer() *cobra.Command {
	var f inferFlags
	c := &cobra.Command{
		Use:   "infer MODEL",
		Short: "Ask a server for one inference",
		Long: "Ask a server that speaks the Open Inference Protocol, version 2, such as weir up, " +
			"for one inference, with binary data over HTTP. Inputs are given and made up as for " +
			"weir run. The token in $" + tokenVariable + " is sent, if there is one.",
		Example: "  weir infer digits --shape image=1x1x8x8 --top 3",
		Args:    exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			if f.timeout <= 0 {
				return fmt.Errorf("--timeout %v: give a time such as 10s", f.timeout)
			}
			if err := errors.Join(f.resultFlags.check(c), f.inputs.images.Check()); err != nil {
				return err
			}
			return f.run(c, args[0])
		},
	}
	f.inputs.add(c)
	f.inputs.addGiven(c)
	f.resultFlags.add(c)
	f.remoteFlags.add(c)
	c.Flags().StringVar(&f.version, "version", "", "the `VERSION` of the model (default: the one "+
		"that the server chooses)")
	c.Flags().DurationVar(&f.timeout, "timeout", time.Minute, "how long to wait for the answer")
	return c
}

func (f *inferFlags) run(c *cobra.Command, model string) error {
	r, err := f.open()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context(), f.timeout)
	defer cancel()
	asked, err := f.inputs.request(ctx, c, r, model, f.version)
	if err != nil {
		return err
	}
	began := time.Now()
	answer, err := r.asks().Infer(ctx, asked)
	if err != nil {
		return r.failure(err)
	}
	res := &inferResult{Model: answer.Model, Version: answer.Version, RunMS: ms(time.Since(began))}
	var names []string
	var outs []*tensor.Tensor
	for _, v := range answer.Outputs {
		names, outs = append(names, v.Name), append(outs, v.Tensor)
	}
	if res.Outputs, err = f.take(c, names, outs); err != nil {
		return err
	}
	if f.asJSON {
		return printJSON(c.OutOrStdout(), res)
	}
	f.printOutputs(c, res.Outputs, outs)
	say(c.ErrOrStderr(), "%s, version %s, answered in %.2f ms", res.Model, res.Version, res.RunMS)
	return nil
}

// asks is the server as it is asked for inferences.
func (r *remote) asks() *client.Client {
	return &client.Client{URL: r.url, Token: r.token, HTTP: r.client}
}

// failure is the error of a request that was not answered.
func (r *remote) failure(err error) error {
	var said *client.Error
	var call *client.CallError
	overHTTP, overGRPC := errors.As(err, &said), errors.As(err, &call)
	switch {
	case !overHTTP && !overGRPC:
		err = fmt.Errorf("server %s does not answer: %w", r.url, err)
	case overHTTP && said.Status == http.StatusUnauthorized,
		overGRPC && call.Code == codes.Unauthenticated:
		err = fmt.Errorf("server %s: %w: $%s is what this command sends", r.url, err,
			tokenVariable)
	default:
		err = fmt.Errorf("server %s: %w", r.url, err)
	}
	return failed(err)
}

// request makes a request for a model of a server, which says what it takes.
func (f *inputFlags) request(ctx context.Context, c *cobra.Command, r *remote, model,
	version string) (*client.Prepared, error) {
	m, err := r.asks().Metadata(ctx, model, version)
	if err != nil {
		return nil, r.failure(err)
	}
	q, err := f.fill(c, r.url, m)
	if err != nil {
		return nil, err
	}
	return client.Prepare(model, version, q)
}

// fill makes a request for a model of a server, of which it has said what it takes.
func (f *inputFlags) fill(c *cobra.Command, server string, m oip.Metadata) (*oip.Request, error) {
	takes, err := declared(m.Inputs)
	if err != nil {
		return nil, failed(fmt.Errorf("server %s: model %s: %w", server, m.Name, err))
	}
	given, err := f.resolve(c, m.Name, takes, mostRequest)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name, err)
	}
	values, err := feed.Make(takes, given.shapes, given.given, f.seed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name, err)
	}
	if made := given.made(takes); len(made) > 0 {
		say(c.ErrOrStderr(), "made up: %s (floats 0 to 1 from seed %d, integers 1)",
			strings.Join(made, ", "), f.seed)
	}
	q := &oip.Request{}
	for i, v := range takes {
		q.Inputs = append(q.Inputs, oip.Input{Name: v.Name, Tensor: values[i]})
	}
	return q, nil
}

// declared are inputs as a server's metadata have them.
func declared(list []oip.TensorFields) ([]*graph.Value, error) {
	var takes []*graph.Value
	for _, f := range list {
		d, err := oip.ParseDatatype(f.Datatype)
		if err != nil {
			return nil, fmt.Errorf("input %.200q: %w", f.Name, err)
		}
		var dims []op.Dim
		for i, n := range f.Shape {
			if n < 0 {
				// metadata do not say which of them are the same
				dims = append(dims, op.Sym(fmt.Sprintf("%s_%d", f.Name, i)))
				continue
			}
			dims = append(dims, op.Known(int(n)))
		}
		takes = append(takes, &graph.Value{Name: f.Name, Type: op.Ranked(d, dims...)})
	}
	return takes, nil
}
