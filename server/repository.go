package server

import (
	"cmp"
	"maps"

	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/repo"
)

// About describes the server.
func (s *Server) About() oip.ServerMetadata {
	about := oip.ServerMetadata{Name: cmp.Or(s.o.Name, "weir"), Version: s.o.Version,
		Extensions: []string{"binary_tensor_data", "classification", "generate",
			"model_configuration", "model_repository", "model_repository(unload_dependents)",
			"schedule_policy", "sequence", "statistics", "trace"}}
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

// config is what the model's configuration says, and in its place or beside it what the model
// itself does.
func (v *version) config() *oip.Config {
	c := &oip.Config{Platform: v.metadata.Platform, Backend: "weir"}
	if v.source.Config != nil {
		*c = *v.source.Config
		c.Platform = cmp.Or(c.Platform, v.metadata.Platform)
		c.Backend = cmp.Or(c.Backend, "weir")
	}
	if v.ensemble != nil {
		c.Backend = "" // as tritonserver has it
	}
	c.Name = v.name
	if c.VersionPolicy == (oip.VersionPolicy{}) {
		c.VersionPolicy.Latest = &oip.LatestVersions{NumVersions: 1}
	}
	if v.ensemble == nil {
		c.DefaultModelFilename = cmp.Or(c.DefaultModelFilename, repo.File)
	}
	if c.ModelWarmup == nil {
		c.ModelWarmup = []oip.Warmup{}
	}
	if v.decoupled {
		c.TransactionPolicy = &oip.TransactionPolicy{Decoupled: true}
	}
	shown := v.shown()
	c.Input = configItems(c.Input, shown.Inputs, c.MaxBatchSize > 0)
	c.Output = configItems(c.Output, shown.Outputs, c.MaxBatchSize > 0)
	given := c.Parameters
	c.Parameters = map[string]oip.ConfigText{}
	maps.Copy(c.Parameters, given)
	v.notes(c)
	return c
}

// notes says beside a configuration what came of it.
func (v *version) notes(c *oip.Config) {
	note := func(key, text string) { c.Parameters[key] = oip.ConfigText{StringValue: text} }
	if b := v.batches.Load(); b.why != "" {
		note("batching", b.why)
	}
	if r := c.ResponseCache; r != nil && r.Enable && !v.cached() {
		note("response_cache", "off: the server keeps no answers: begin it with --response-cache")
	}
	if v.ensemble != nil {
		note("ensemble", v.ensemble.kind())
	}
	if len(c.InstanceGroup) > 0 {
		note("instances", "executions of a version run one after another, with all the cores "+
			"that it is given: instance_group changes nothing")
	}
	if c.Optimization != nil {
		note("optimization", "weir's own planner decides: the key changes nothing")
	}
	c.Optimization, c.Runtime, c.CCModelFilenames, c.MetricTags, c.ModelMetrics = nil, nil, nil,
		nil, nil
}

// configItems are inputs or outputs of a configuration: those of the model where it names none.
func configItems(items []oip.ConfigItem, has []oip.TensorFields, batch bool) []oip.ConfigItem {
	if len(items) > 0 {
		return items
	}
	list := []oip.ConfigItem{}
	for _, f := range has {
		dims := f.Shape
		if batch {
			dims = dims[1:]
		}
		list = append(list, oip.ConfigItem{Name: f.Name, DataType: configType(f.Datatype),
			Dims: dims})
	}
	return list
}
