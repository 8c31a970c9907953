package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/server/telemetry"
	"github.com/weirgpu/weir/server/telemetry/otlp"
)

// traceFlags say where the traces of requests go.
type traceFlags struct {
	collector string
	rate      uint32
}

func (f *traceFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.collector, "otlp", "", "the `URL` of an OpenTelemetry collector, such "+
		"as http://localhost:4318, that takes traces of requests")
	c.Flags().Uint32Var(&f.rate, "trace-rate", 1000, "trace one request in `N`, of those whose "+
		"client sends no trace of its own; 0: none of them")
}

// lastSpans is how long the end of the command waits for the collector.
const lastSpans = 3 * time.Second

// recorder returns what counts and traces requests, and a function that sends the last traces.
func (f *traceFlags) recorder(log *slog.Logger, programs func() []telemetry.Programs) (
	*telemetry.Recorder, func(), error) {
	o := telemetry.Options{Version: thisVersion().Version, TraceRate: f.rate, Log: log,
		Programs: programs}
	if f.collector == "" {
		return telemetry.New(o), func() {}, nil
	}
	to, err := otlp.New(otlp.Options{URL: f.collector, Scope: "github.com/weirgpu/weir/server",
		Log: log, Resource: []otlp.Attr{otlp.Text("service.name", "weir"),
			otlp.Text("service.version", o.Version)}})
	if err != nil {
		return nil, nil, fmt.Errorf("--otlp: %w", err)
	}
	o.Traces = to
	return telemetry.New(o), func() {
		ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
		defer cancel()
		to.Close(ctx)
	}, nil
}
