package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/jobs"
	"github.com/weirgpu/weir/server/training"
	"github.com/weirgpu/weir/server/web"
)

// batchJobs are the jobs of a server, of which a server without a state has none.
type batchJobs struct {
	*jobs.Jobs
	trained *training.Trainings // nil where nothing is trained
	begin   func()              // is called once the models are loaded
}

// train follows recipes beside the models.
func (b *batchJobs) train(recipes []string, s *server.Server, log *slog.Logger) (err error) {
	loaded := make(chan struct{})
	b.trained, err = training.Open(training.Options{Server: s, Recipes: recipes, Begin: loaded,
		Log: log})
	if err != nil {
		return err
	}
	first := b.begin
	b.begin = func() { first(); close(loaded) }
	for pattern, h := range b.trained.Routes() {
		s.Handle(pattern, h)
	}
	return nil
}

// jobs goes on with the jobs of a server's state, and puts their endpoints beside the others.
func (p *people) jobs(ctx context.Context, s *server.Server, log *slog.Logger) (batchJobs, error) {
	loaded := make(chan struct{})
	b := batchJobs{begin: func() { close(loaded) }}
	if p.state != nil {
		o := jobs.Options{Store: p.state.store, Server: s, Log: log, Begin: loaded}
		if p.guard != nil {
			o.Audit, o.May = p.state.log, p.mayJob
		}
		var err error
		if b.Jobs, err = jobs.Open(ctx, o); err != nil {
			return b, err
		}
	}
	for pattern, h := range b.Routes() {
		s.Handle(pattern, h)
	}
	return b, nil
}

// shownJobs is how many jobs the page has, the newest.
const shownJobs = 100

// rows are the jobs as the page shows them, nil where there are none.
func (b batchJobs) rows(log *slog.Logger) func() []web.Job {
	if b.Jobs == nil {
		return nil
	}
	var known []web.Job
	before := ^uint64(0)
	return func() []web.Job { // by one goroutine
		now := b.Changes()
		if now == before {
			return known
		}
		list, err := b.List(context.Background(), shownJobs)
		if err != nil {
			log.Error("jobs cannot be read", "error", err)
		}
		var rows []web.Job
		for _, j := range list {
			row := web.Job{ID: j.ID, Account: j.Account, Owner: j.Owner(),
				Name: j.Name, Model: j.Model,
				State: string(j.State), Reason: j.Reason, Rows: j.Rows, Done: j.Done,
				Bytes: j.Bytes, Made: j.Made.UnixMilli()}
			if !j.Ended.IsZero() {
				row.Ended = j.Ended.UnixMilli()
			}
			rows = append(rows, row)
		}
		if err == nil {
			known, before = rows, now
		}
		return known
	}
}

// mayJob reports whether an account still may have jobs with a model. Jobs from a time without
// accounts go on.
func (p *people) mayJob(owner, model string) bool {
	a, err := p.state.book.Owning(owner)
	return owner == "" || err == nil && a.May(auth.Job, model)
}

// jobLimit is how long the rows may take that are under way when the server ends.
var jobLimit = 5 * time.Second // which tests change

// stop has what runs stop. It needs a context that has not ended, since that of the command has.
func (b batchJobs) stop(ctx context.Context) {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), jobLimit)
	defer cancel()
	if b.Jobs != nil {
		b.Close(last)
	}
	if b.trained != nil {
		b.trained.Close(last)
	}
}
