package oip

// Config is a model's configuration, as much of Triton's as weir has (its model_config.proto, whose
// names these are). In JSON it is what tritonserver's endpoint /config answers.
type Config struct {
	Name          string        `json:"name"`
	Platform      string        `json:"platform"`
	Backend       string        `json:"backend"`
	VersionPolicy VersionPolicy `json:"version_policy"`
	// MaxBatchSize is the most rows of a batch; 0: requests are never put together, and the
	// dimensions of inputs and outputs are all there are. Otherwise the first, that of the batch,
	// is left out of them.
	MaxBatchSize int64        `json:"max_batch_size"`
	Input        []ConfigItem `json:"input"`
	Output       []ConfigItem `json:"output"`
	// DynamicBatching is nil where requests are not put together.
	DynamicBatching *DynamicBatching `json:"dynamic_batching,omitempty"`
	// TransactionPolicy is nil where a request has one answer.
	TransactionPolicy    *TransactionPolicy    `json:"model_transaction_policy,omitempty"`
	DefaultModelFilename string                `json:"default_model_filename"`
	Parameters           map[string]ConfigText `json:"parameters"`
	ModelWarmup          []Warmup              `json:"model_warmup"`
}

// VersionPolicy says which versions are served: exactly one of its fields is set.
type VersionPolicy struct {
	Latest   *LatestVersions   `json:"latest,omitempty"`
	All      *struct{}         `json:"all,omitempty"`
	Specific *SpecificVersions `json:"specific,omitempty"`
}

// LatestVersions serves so many of the newest versions.
type LatestVersions struct {
	NumVersions int64 `json:"num_versions"`
}

// SpecificVersions serves the versions that are listed.
type SpecificVersions struct {
	Versions []int64 `json:"versions"`
}

// ConfigItem is an input or output.
type ConfigItem struct {
	Name          string  `json:"name"`
	DataType      string  `json:"data_type"` // such as TYPE_FP32
	Dims          []int64 `json:"dims"`      // -1: of any size
	LabelFilename string  `json:"label_filename,omitempty"`
}

// DynamicBatching says which requests are put together.
type DynamicBatching struct {
	PreferredBatchSize        []int64     `json:"preferred_batch_size"`
	MaxQueueDelayMicroseconds int64       `json:"max_queue_delay_microseconds"`
	PriorityLevels            int64       `json:"priority_levels"`
	DefaultPriorityLevel      int64       `json:"default_priority_level"`
	DefaultQueuePolicy        QueuePolicy `json:"default_queue_policy"`
}

// QueuePolicy says how requests wait.
type QueuePolicy struct {
	TimeoutAction              string `json:"timeout_action"` // REJECT
	DefaultTimeoutMicroseconds int64  `json:"default_timeout_microseconds"`
	AllowTimeoutOverride       bool   `json:"allow_timeout_override"`
	MaxQueueSize               int64  `json:"max_queue_size"`
}

// TransactionPolicy says whether requests have any number of answers.
type TransactionPolicy struct {
	Decoupled bool `json:"decoupled"`
}

// ConfigText is a parameter's value.
type ConfigText struct {
	StringValue string `json:"string_value"`
}

// Warmup is a request that a version answers before it is served.
type Warmup struct {
	Name      string                 `json:"name"`
	BatchSize int64                  `json:"batch_size"`
	Inputs    map[string]WarmupInput `json:"inputs"`
	Count     int64                  `json:"count"`
}

// WarmupInput is an input of a [Warmup]: ZeroData or RandomData is set.
type WarmupInput struct {
	DataType   string  `json:"data_type"`
	Dims       []int64 `json:"dims"`
	ZeroData   bool    `json:"zero_data,omitempty"`
	RandomData bool    `json:"random_data,omitempty"`
}
