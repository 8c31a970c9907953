package server

import (
	"cmp"
	"github.com/weirgpu/weir/server/oip"
)

// About describes the server.
func (s *Server) About() oip.ServerMetadata {
	about := oip.ServerMetadata{Name: cmp.Or(s.o.Name, "weir"), Version: s.o.Version,
		Extensions: []string{"binary_tensor_data", "classification", "generate",
			"model_configuration", "model_repository", "schedule_policy", "sequence", "statistics",
			"trace"}}
	if s.regions != nil {
		about.Extensions = append(about.Extensions, "system_shared_memory")
	}
	if s.o.Logs != nil {
		about.Extensions = append(about.Extensions, "logging")
	}
	return about
}

// Metadata describes a version of a model, and names all that are served; an empty version stands
// for the newest of them. The error is an *oip.Fault.
func (s *Server) Metadata(name, version string) (oip.Metadata, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.find(name, version)
	if err != nil {
		return oip.Metadata{}, err
	}
	m := v.shown()
	m.Versions = v.model.numbers()
	return m, nil
}

// ModelReady reports whether requests for a version of a model are answered; an empty version
// stands for the newest that is served. The error is an *oip.Fault of kind NotFound.
func (s *Server) ModelReady(name, version string) (bool, error) {
	_, err := s.look(name, version)
	if oip.KindOf(err) == oip.Unavailable {
		return false, nil
	}
	return err == nil, err
}

// Config returns the configuration of a version of a model; an empty version stands for the newest
// that is served. The error is an *oip.Fault.
func (s *Server) Config(name, version string) (*oip.Config, error) {
	v, err := s.look(name, version)
	if err != nil {
		return nil, err
	}
	return v.config(), nil
}

// config is what the model itself says.
func (v *version) config() *oip.Config {
	c := &oip.Config{Name: v.name, Platform: v.metadata.Platform, Backend: "weir",
		VersionPolicy: oip.VersionPolicy{Latest: &oip.LatestVersions{NumVersions: 1}},
		Input:         []oip.ConfigItem{}, Output: []oip.ConfigItem{},
		DefaultModelFilename: "model.onnx", Parameters: map[string]oip.ConfigText{},
		ModelWarmup: []oip.Warmup{}}
	if b := v.batches.Load(); b.why != "" {
		c.Parameters["batching"] = oip.ConfigText{StringValue: b.why}
	}
	if v.decoupled {
		c.TransactionPolicy = &oip.TransactionPolicy{Decoupled: true}
	}
	item := func(f oip.TensorFields) oip.ConfigItem {
		name := f.Datatype
		if name == "BYTES" {
			name = "STRING" // model_config.proto has no TYPE_BYTES
		}
		return oip.ConfigItem{Name: f.Name, DataType: "TYPE_" + name, Dims: f.Shape}
	}
	shown := v.shown()
	for _, f := range shown.Inputs {
		c.Input = append(c.Input, item(f))
	}
	for _, f := range shown.Outputs {
		c.Output = append(c.Output, item(f))
	}
	return c
}
