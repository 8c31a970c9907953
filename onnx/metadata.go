package onnx

import "maps"

// Metadata is what a model says of itself, field by field of ModelProto. Nothing that is computed
// depends on it, but for Opsets.
type Metadata struct {
	Graph           string // name of the main graph
	Producer        string // the tool that made the model
	ProducerVersion string
	Domain          string // the model's name space, such as "com.example"
	Version         int64  // of the model
	Doc             string
	IRVersion       int // of the file format
	// Opsets are the versions of operator sets that the model imports, by domain, "" for ONNX's.
	Opsets map[string]int
	// Properties are the metadata_props: what the model's author noted, such as labels.
	Properties map[string]string
}

// Clone returns a copy that shares nothing with m.
func (m Metadata) Clone() Metadata {
	m.Opsets, m.Properties = maps.Clone(m.Opsets), maps.Clone(m.Properties)
	return m
}

// metadata reads what a model says of itself.
func metadata(m *modelMessage) Metadata {
	return Metadata{Graph: m.graph.name, Producer: m.producer, ProducerVersion: m.producerVersion,
		Domain: m.domain, Version: m.modelVersion, Doc: m.doc, IRVersion: int(m.irVersion),
		Opsets: m.opsets, Properties: m.meta}.Clone()
}
