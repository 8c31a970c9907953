package oip

// StatisticsList is the answer about statistics (Triton, extension_statistics.md).
type StatisticsList struct {
	Models []Statistics `json:"model_stats"`
}

// Statistics are what a version of a model came to since it was loaded (Triton,
// extension_statistics.md).
type Statistics struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// LastInference is when the last request came, in milliseconds of Unix's time; 0 for none.
	LastInference uint64 `json:"last_inference"`
	// Inferences counts rows that were computed: a request of 64 rows is 64 inferences.
	Inferences uint64 `json:"inference_count"`
	// Executions counts how often the model ran without an error, for one request or several.
	Executions uint64            `json:"execution_count"`
	Requests   RequestStatistics `json:"inference_stats"`
	Batches    []BatchStatistics `json:"batch_stats"` // by size
}

// RequestStatistics are those of requests. A request that ran beside others counts the whole time
// of the execution.
type RequestStatistics struct {
	Success  Duration `json:"success"` // from admission to the answer
	Fail     Duration `json:"fail"`
	Queue    Duration `json:"queue"` // and waiting for the device
	Input    Duration `json:"compute_input"`
	Infer    Duration `json:"compute_infer"`
	Output   Duration `json:"compute_output"`
	CacheHit Duration `json:"cache_hit"`
	// CacheMiss and CacheHit are of a cache of responses, and 0 without one.
	CacheMiss Duration `json:"cache_miss"`
}

// BatchStatistics are those of executions of one size.
type BatchStatistics struct {
	Size   uint64   `json:"batch_size"`
	Input  Duration `json:"compute_input"`
	Infer  Duration `json:"compute_infer"`
	Output Duration `json:"compute_output"`
}

// Duration is how often something happened, and how long it took in all, in nanoseconds.
type Duration struct {
	Count uint64 `json:"count"`
	NS    uint64 `json:"ns"`
}
