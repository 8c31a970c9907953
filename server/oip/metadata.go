package oip

// Metadata describes a model (inference_rest.md, "Model Metadata").
type Metadata struct {
	Name     string         `json:"name"`
	Versions []string       `json:"versions"`
	Platform string         `json:"platform"`
	Inputs   []TensorFields `json:"inputs"`
	Outputs  []TensorFields `json:"outputs"`
}

// TensorFields describes an input or output; -1 in Shape is a dimension of any size.
type TensorFields struct {
	Name     string  `json:"name"`
	Datatype string  `json:"datatype"`
	Shape    []int64 `json:"shape"`
}

// ServerMetadata describes a server (inference_rest.md, "Server Metadata").
type ServerMetadata struct {
	Name       string   `json:"name"`
	Version    string   `json:"version"`
	Extensions []string `json:"extensions"`
}

// Health is whether something is alive or ready; of Live and Ready the one that was not asked for
// is left out.
type Health struct {
	Name  string `json:"name,omitempty"`
	Live  *bool  `json:"live,omitempty"`
	Ready *bool  `json:"ready,omitempty"`
}

// Failure is the body of every answer that is an error.
type Failure struct {
	Error string `json:"error"`
}

// IndexEntry is a line of the repository's index (Triton, extension_model_repository.md).
type IndexEntry struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	State   string `json:"state"` // LOADING, READY or UNAVAILABLE
	Reason  string `json:"reason"`
	// Ensemble says of a version that is made of others how it is, "" of others; weir's own.
	Ensemble string `json:"ensemble,omitempty"`
}
