package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	lib "github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/rpc"
	"github.com/weirgpu/weir/server/telemetry"
	"github.com/weirgpu/weir/server/web"
)

// service is what weir up runs.
type service struct {
	flags *upFlags
	log   *slog.Logger

	on, calls, metrics net.Listener // for HTTP; calls and metrics are nil where there are none
	people             *people
	from               *server.Folder // nil where there is none
	server             *server.Server
	programs           *programs
	jobs               batchJobs
	page               *web.Page
	http, beside       *http.Server // beside answers on metrics
	grpc               *rpc.Server

	ended chan error          // why one of them no longer serves
	rest  func(time.Duration) // waits for the time of grace; nil stands for time.Sleep
	last  []func()            // what ends once all is answered
}

// open makes all that is served, and answers nothing yet. After an error abandon closes what there
// is.
func (s *service) open(c *cobra.Command) error {
	f := s.flags
	logs := telemetry.NewLogs(slog.NewTextHandler(c.ErrOrStderr(),
		&slog.HandlerOptions{Level: slog.LevelDebug}))
	s.log = slog.New(logs)
	s.programs = &programs{flags: &f.programs, models: &models{}, log: s.log}
	rec, endTraces, err := f.traces.recorder(s.log, s.programs.measured)
	if err != nil {
		return err
	}
	s.last = append(s.last, endTraces)
	if f.people.handed, err = takeHanded(); err != nil {
		return err
	}
	if s.on, s.calls, err = f.listen(s.log); err != nil {
		return err
	}
	if s.metrics, err = f.metrics.listen(&f.people, s.on, s.log); err != nil {
		return err
	}
	if s.people, err = f.people.open(c.Context(), widest(s.on, s.metrics, s.calls),
		s.log); err != nil {
		return err
	}
	if s.from, err = f.catalogue(c.ErrOrStderr(), s.log); err != nil {
		return err
	}
	if s.server, err = server.New(server.Options{Name: f.clients.name, Memory: f.clients.memory,
		Cache:   int64(f.clients.cache),
		Version: thisVersion().Version, Log: s.log,
		Logs: logs, Recorder: rec, AnyName: s.people.guard != nil, Terms: f.file.share,
		State: s.people.kept(), Catalogue: s.catalogue(), Fixed: f.control.fixed(),
		Lend: f.memory > 0,
		Host: lib.HostOptions{Policy: f.policy, Threads: f.threads,
			Memory: f.memory}}); err != nil {
		return err
	}
	s.people.serve(s.server)
	if s.jobs, err = s.people.jobs(c.Context(), s.server, s.log); err != nil {
		return failed(err)
	}
	if err = s.jobs.train(f.recipes, s.server, s.log); err != nil {
		return err
	}
	s.programs.models.Server = s.server
	s.page = f.page(shared{s.server, s.programs}, s.people, s.jobs, s.log)
	s.programs.models.page = s.page
	s.programs.begin()
	s.last = append(s.last, s.programs.close)
	s.http = server.HTTP(s.server, s.log)
	s.http.RegisterOnShutdown(s.page.Close) // which its readers would hold up
	s.grpc = rpc.New(rpc.Options{Server: s.server, Guard: s.people.guard, Log: s.log})
	return nil
}

// catalogue is where models are loaded from on request; nil where there is no folder.
func (s *service) catalogue() server.Catalogue {
	if s.from == nil {
		return nil
	}
	return s.from
}

// begin loads the first models, and answers meanwhile that they are being loaded. On sockets that a
// service manager listens on it answers once they are: until then requests wait there, of which the
// first may be why it begins.
func (s *service) begin(ctx context.Context, talk io.Writer) error {
	waits := len(s.flags.people.handed) > 0
	if !waits {
		s.serve()
	}
	sources, err := s.flags.first(ctx, s.from)
	if err != nil {
		return err
	}
	if err := s.server.LoadAll(ctx, sources); err != nil && ctx.Err() == nil {
		fmt.Fprintln(talk, "weir: not ready:", message(err))
	}
	s.programs.await(ctx)
	if waits {
		s.serve()
	}
	s.jobs.begin()
	return nil
}

// serve begins to answer.
func (s *service) serve() {
	go func() { s.ended <- s.server.Serve(s.on, s.http) }()
	if s.calls != nil {
		go func() { s.ended <- s.grpc.Serve(s.calls) }()
	}
	if s.metrics != nil {
		s.beside = server.HTTP(metricsOnly(s.server), s.log)
		go func() { s.ended <- s.beside.Serve(s.metrics) }()
	}
}

// where are the addresses that answer.
func (s *service) where() endpoints {
	e := endpoints{http: s.on.Addr().String(), metrics: s.on.Addr().String(),
		accounts: s.people.guard != nil}
	if s.calls != nil {
		e.grpc = s.calls.Addr().String()
	}
	if s.metrics != nil {
		e.metrics = s.metrics.Addr().String()
	}
	return e
}

// abandon closes what open opened before it failed.
func (s *service) abandon() error {
	var errs []error
	if s.server != nil {
		errs = append(errs, s.server.Close())
	}
	errs = append(errs, s.flags.models.close())
	if s.people != nil {
		errs = append(errs, failed(s.people.close()))
	}
	errs = append(errs, closeAll(s.on, s.calls, s.metrics))
	for _, end := range s.last {
		end()
	}
	return errors.Join(errs...)
}

// grace goes on answering after readiness has ended.
func (s *service) grace() {
	rest := s.rest
	if rest == nil {
		rest = time.Sleep
	}
	rest(s.flags.grace)
}

// drainLimit is how long requests under way may take once the server ends.
const drainLimit = 30 * time.Second

// stop ends all without a loss of requests that were taken. It needs a context that has not ended,
// since that of the command has. Metrics are there until all is answered.
func (s *service) stop(ctx context.Context) error {
	tellManager(s.log, daemon.SdNotifyStopping)
	s.server.Retire()
	jobs := make(chan struct{})
	go func() { // beside the requests, which end no later for it
		defer close(jobs)
		s.jobs.stop(ctx)
	}()
	var by *stopped
	if errors.As(context.Cause(ctx), &by) && by.signal == syscall.SIGTERM {
		s.grace()
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainLimit)
	defer cancel()
	calls := make(chan error, 1)
	go func() { calls <- s.grpc.Drain(last) }()
	err := s.server.Drain(last)
	<-jobs // which has a limit of its own, and needs the server
	err = failed(errors.Join(err, s.http.Shutdown(last), <-calls, s.server.Close()))
	s.grpc.Close()
	s.page.Close()
	if s.beside != nil {
		_ = s.beside.Close()
	}
	err = errors.Join(err, failed(s.people.close()), s.flags.models.close())
	for _, end := range s.last {
		end()
	}
	return err
}
