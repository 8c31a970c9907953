package main

import (
	"context"
	"io/fs"
	"log/slog"

	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/repo"
	"github.com/weirgpu/weir/server/web"
)

// page puts the page for browsers beside a server's endpoints.
func (f *upFlags) page(s shared, people *people, batch batchJobs, log *slog.Logger) *web.Page {
	p := web.New(s, web.Options{Version: thisVersion().Version, Figures: s.Recorder(),
		Graphs: graphs(s.Server, f.kept), Accounts: people.guard != nil, Jobs: batch.rows(log),
		Programs:   s.programs.rows,
		SetProgram: s.programs.setShare, Trainings: batch.trained != nil, Log: log})
	for pattern, h := range p.Routes() {
		s.Handle(pattern, h)
	}
	return p
}

// graphs draws ensembles, and reads the models of a folder, or the digits where there is none.
func graphs(s *server.Server, folder string) web.Graphs {
	return func(_ context.Context, model, version string) (*graph.Graph, func() error, error) {
		g, err := s.Drawing(model, version)
		if g != nil {
			return g, func() error { return nil }, nil
		}
		if err != nil {
			return nil, nil, err
		}
		var m *onnx.Model
		if folder == "" {
			m, err = onnx.Decode(digits.Model, "", onnx.Options{})
		} else {
			m, err = readVersion(folder, model, version)
		}
		if err != nil {
			return nil, nil, err
		}
		return m.Graph, m.Close, nil
	}
}

// readVersion reads a version of a folder. The error is of kind fs.ErrNotExist where there is none
// in plain.
func readVersion(folder, model, version string) (*onnx.Model, error) {
	n, _ := repo.Number(version)
	m, err := repo.Versions(folder, model, []int64{n})
	if err != nil {
		return nil, err
	}
	if v := m.Versions[0]; !v.Sealed {
		return onnx.Open(v.Path, onnx.Options{})
	}
	return nil, fs.ErrNotExist
}
