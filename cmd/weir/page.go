package main

import (
	"context"
	"log/slog"
	"path/filepath"

	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/repo"
	"github.com/weirgpu/weir/server/web"
)

// page puts the page for browsers beside a server's endpoints.
func (f *upFlags) page(s *server.Server, people *people, batch batchJobs, beside *programs,
	log *slog.Logger) *web.Page {
	p := web.New(s, web.Options{Version: thisVersion().Version, Figures: s.Recorder(),
		Graphs: graphs(f.kept), Accounts: people.guard != nil, Jobs: batch.rows(log),
		Programs: beside.rows, Log: log})
	for pattern, h := range p.Routes() {
		s.Handle(pattern, h)
	}
	return p
}

// graphs reads the models of a folder, or the digits where there is none.
func graphs(folder string) web.Graphs {
	return func(_ context.Context, model, version string) (*graph.Graph, func() error, error) {
		var m *onnx.Model
		var err error
		if folder == "" {
			m, err = onnx.Decode(digits.Model, "", onnx.Options{})
		} else {
			m, err = onnx.Open(filepath.Join(folder, model, version, repo.File), onnx.Options{})
		}
		if err != nil {
			return nil, nil, err
		}
		return m.Graph, m.Close, nil
	}
}
