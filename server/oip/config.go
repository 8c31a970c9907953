package oip

// Config is a model's configuration, as much of Triton's as weir has (its model_config.proto, whose
// names these are). In JSON it is what tritonserver's endpoint /config answers.
//
// The tags text are for package server/repo, which reads config.pbtxt: the kinds of numbers, and
// which strings are names of enumerations.
type Config struct {
	Name          string        `json:"name"`
	Platform      string        `json:"platform"`
	Backend       string        `json:"backend"`
	Runtime       *Unread       `json:"runtime,omitempty"`
	VersionPolicy VersionPolicy `json:"version_policy"`
	// MaxBatchSize is the most rows of a batch; 0: requests are never put together, and the
	// dimensions of inputs and outputs are all there are. Otherwise the first, that of the batch,
	// is left out of them.
	MaxBatchSize int64        `json:"max_batch_size" text:"i32"`
	Input        []ConfigItem `json:"input"`
	Output       []ConfigItem `json:"output"`
	BatchInput   *Unread      `json:"batch_input,omitempty"`
	BatchOutput  *Unread      `json:"batch_output,omitempty"`
	Optimization *Unread      `json:"optimization,omitempty"`
	// One of these at most is not nil: it says which requests are put together, and in which order.
	DynamicBatching    *DynamicBatching    `json:"dynamic_batching,omitempty"`
	SequenceBatching   *SequenceBatching   `json:"sequence_batching,omitempty"`
	EnsembleScheduling *EnsembleScheduling `json:"ensemble_scheduling,omitempty"`

	InstanceGroup         []InstanceGroup       `json:"instance_group,omitempty"`
	DefaultModelFilename  string                `json:"default_model_filename"`
	CCModelFilenames      *Unread               `json:"cc_model_filenames,omitempty"`
	MetricTags            *Unread               `json:"metric_tags,omitempty"`
	Parameters            map[string]ConfigText `json:"parameters"`
	ModelWarmup           []Warmup              `json:"model_warmup"`
	ModelOperations       *Unread               `json:"model_operations,omitempty"`
	TransactionPolicy     *TransactionPolicy    `json:"model_transaction_policy,omitempty"`
	ModelRepositoryAgents *Unread               `json:"model_repository_agents,omitempty"`
	ResponseCache         *ResponseCache        `json:"response_cache,omitempty"`
	ModelMetrics          *Unread               `json:"model_metrics,omitempty"`
}

// Unread is of a key that is known and not looked into.
type Unread struct{}

// UnmarshalJSON implements json.Unmarshaler.
func (*Unread) UnmarshalJSON([]byte) error { return nil }

// VersionPolicy says which versions are served: exactly one of its fields is set.
type VersionPolicy struct {
	Latest   *LatestVersions   `json:"latest,omitempty"`
	All      *struct{}         `json:"all,omitempty"`
	Specific *SpecificVersions `json:"specific,omitempty"`
}

// LatestVersions serves so many of the newest versions.
type LatestVersions struct {
	NumVersions int64 `json:"num_versions" text:"u32"`
}

// SpecificVersions serves the versions that are listed.
type SpecificVersions struct {
	Versions []int64 `json:"versions"`
}

// ConfigItem is an input or output.
type ConfigItem struct {
	Name     string  `json:"name"`
	DataType string  `json:"data_type" text:"word"` // such as TYPE_FP32
	Format   string  `json:"format,omitempty" text:"word"`
	Dims     []int64 `json:"dims"` // -1: of any size
	// Reshape is what the model itself has in the place of Dims, nil where it has those.
	Reshape          *Reshape `json:"reshape,omitempty"`
	LabelFilename    string   `json:"label_filename,omitempty"`
	IsShapeTensor    bool     `json:"is_shape_tensor,omitempty"`
	AllowRaggedBatch bool     `json:"allow_ragged_batch,omitempty"`
	Optional         bool     `json:"optional,omitempty"`
	NonLinearFormat  bool     `json:"is_non_linear_format_io,omitempty"`
}

// Reshape is the dimensions that a model has.
type Reshape struct {
	Shape []int64 `json:"shape"`
}

// DynamicBatching says which requests are put together.
type DynamicBatching struct {
	PreferredBatchSize        []int64     `json:"preferred_batch_size" text:"i32"`
	MaxQueueDelayMicroseconds int64       `json:"max_queue_delay_microseconds" text:"u64"`
	PreserveOrdering          bool        `json:"preserve_ordering,omitempty"`
	PriorityLevels            int64       `json:"priority_levels" text:"u64"`
	DefaultPriorityLevel      int64       `json:"default_priority_level" text:"u64"`
	DefaultQueuePolicy        QueuePolicy `json:"default_queue_policy"`
	PriorityQueuePolicy       *Unread     `json:"priority_queue_policy,omitempty"`
}

// QueuePolicy says how requests wait.
type QueuePolicy struct {
	TimeoutAction              string `json:"timeout_action" text:"word"` // REJECT or DELAY
	DefaultTimeoutMicroseconds int64  `json:"default_timeout_microseconds" text:"u64"`
	AllowTimeoutOverride       bool   `json:"allow_timeout_override"`
	MaxQueueSize               int64  `json:"max_queue_size" text:"u32"`
}

// SequenceBatching says how requests of one sequence come to one state. One of Direct and Oldest is
// not nil at most.
type SequenceBatching struct {
	Direct                      *DirectSequences  `json:"direct,omitempty"`
	Oldest                      *OldestSequences  `json:"oldest,omitempty"`
	MaxSequenceIdleMicroseconds int64             `json:"max_sequence_idle_microseconds" text:"u64"`
	ControlInput                []SequenceControl `json:"control_input,omitempty"`
	State                       []SequenceState   `json:"state,omitempty"`
	GenerativeSequence          bool              `json:"generative_sequence,omitempty"`
	IterativeSequence           bool              `json:"iterative_sequence,omitempty"`
}

// DirectSequences gives each sequence a row of batches for itself.
type DirectSequences struct {
	MaxQueueDelayMicroseconds int64   `json:"max_queue_delay_microseconds" text:"u64"`
	MinimumSlotUtilization    float64 `json:"minimum_slot_utilization"`
}

// OldestSequences puts the oldest requests of sequences together.
type OldestSequences struct {
	MaxCandidateSequences     int64   `json:"max_candidate_sequences" text:"i32"`
	PreferredBatchSize        []int64 `json:"preferred_batch_size" text:"i32"`
	MaxQueueDelayMicroseconds int64   `json:"max_queue_delay_microseconds" text:"u64"`
	PreserveOrdering          bool    `json:"preserve_ordering,omitempty"`
}

// SequenceControl is an input that tells where a request is in its sequence.
type SequenceControl struct {
	Name    string        `json:"name"`
	Control []ControlKind `json:"control"`
}

// ControlKind is what an input tells: two values for no and yes, or the sequence's id as DataType.
type ControlKind struct {
	Kind           string    `json:"kind" text:"word"` // such as CONTROL_SEQUENCE_START
	Int32FalseTrue []int64   `json:"int32_false_true,omitempty" text:"i32"`
	FP32FalseTrue  []float64 `json:"fp32_false_true,omitempty"`
	BoolFalseTrue  []bool    `json:"bool_false_true,omitempty"`
	DataType       string    `json:"data_type,omitempty" text:"word"`
}

// SequenceState is an output that is an input of the sequence's next request.
type SequenceState struct {
	InputName            string         `json:"input_name"`
	OutputName           string         `json:"output_name"`
	DataType             string         `json:"data_type" text:"word"`
	Dims                 []int64        `json:"dims"`
	InitialState         []InitialState `json:"initial_state,omitempty"`
	UseSameBufferForBoth bool           `json:"use_same_buffer_for_input_output,omitempty"`
	UseGrowableMemory    bool           `json:"use_growable_memory,omitempty"`
}

// InitialState is a state at the begin of a sequence: ZeroData or DataFile is set.
type InitialState struct {
	Name     string  `json:"name"`
	DataType string  `json:"data_type" text:"word"`
	Dims     []int64 `json:"dims"`
	ZeroData bool    `json:"zero_data,omitempty"`
	DataFile string  `json:"data_file,omitempty"` // in the folder initial_state of the model's
}

// EnsembleScheduling says which models compute a request one after another.
type EnsembleScheduling struct {
	Step []EnsembleStep `json:"step"`
}

// EnsembleStep is a model with what its inputs and outputs are called in the ensemble.
type EnsembleStep struct {
	ModelName      string            `json:"model_name"`
	ModelVersion   int64             `json:"model_version"` // -1: the newest
	InputMap       map[string]string `json:"input_map"`
	OutputMap      map[string]string `json:"output_map"`
	ModelNamespace string            `json:"model_namespace,omitempty"`
}

// InstanceGroup says how many executions run at once on which devices.
type InstanceGroup struct {
	Name           string  `json:"name,omitempty"`
	Kind           string  `json:"kind,omitempty" text:"word"` // such as KIND_CPU
	Count          int64   `json:"count,omitempty" text:"i32"`
	GPUs           []int64 `json:"gpus,omitempty" text:"i32"`
	Profile        *Unread `json:"profile,omitempty"`
	Passive        bool    `json:"passive,omitempty"`
	HostPolicy     string  `json:"host_policy,omitempty"`
	RateLimiter    *Unread `json:"rate_limiter,omitempty"`
	SecondaryUnits *Unread `json:"secondary_devices,omitempty"`
}

// TransactionPolicy says how many answers a request has: one, or any number.
type TransactionPolicy struct {
	Decoupled bool `json:"decoupled"`
}

// ResponseCache says whether equal requests have the answer of the first.
type ResponseCache struct {
	Enable bool `json:"enable"`
}

// ConfigText is a parameter's value.
type ConfigText struct {
	StringValue string `json:"string_value"`
}

// Warmup is a request that a version answers before it is served.
type Warmup struct {
	Name      string                 `json:"name"`
	BatchSize int64                  `json:"batch_size" text:"u32"`
	Inputs    map[string]WarmupInput `json:"inputs"`
	Count     int64                  `json:"count" text:"u32"` // 0 stands for 1
}

// WarmupInput is an input of a [Warmup]: ZeroData, RandomData or InputDataFile is set.
type WarmupInput struct {
	DataType      string  `json:"data_type" text:"word"`
	Dims          []int64 `json:"dims"`
	ZeroData      bool    `json:"zero_data,omitempty"`
	RandomData    bool    `json:"random_data,omitempty"`
	InputDataFile string  `json:"input_data_file,omitempty"` // in the folder warmup of the model's
}
