package auth

// Scope says for which models an endpoint's right is needed.
type Scope int

// The scopes.
const (
	Anyone  Scope = iota // nobody is asked who they are
	Self                 // any account; it is about what the account itself has
	Some                 // the right on some model; the answer is about those only
	OfModel              // the right on the model that is named
	OfAll                // the right on all models
)

// Endpoint is what one thing needs that a client can ask for, by whichever protocol.
type Endpoint struct {
	// Name is what the audit calls it.
	Name string
	// HTTP are patterns of net/http.ServeMux, with the model as {model}.
	HTTP []string
	// RPC are full names of gRPC methods. A method is in two rows where it both asks and changes.
	RPC   []string
	Right Rights
	Scope Scope
	// Changes is set of what changes the server's state: each use of it is recorded. What changes
	// accounts is recorded by the Book, and what changes jobs by package jobs, with the change.
	Changes bool
}

// ofModel are the patterns of a path below a model, with and without a version.
func ofModel(method, below string) []string {
	return []string{method + " /v2/models/{model}" + below,
		method + " /v2/models/{model}/versions/{version}" + below}
}

const inference = "/inference.GRPCInferenceService/"

// Endpoints is all that can be asked for. What is not in it needs admin on all models.
var Endpoints = []Endpoint{
	{"health", []string{"GET /v2/health/live", "GET /v2/health/ready"}, []string{
		inference + "ServerLive", inference + "ServerReady", "/grpc.health.v1.Health/Check",
		"/grpc.health.v1.Health/Watch", "/grpc.health.v1.Health/List"}, 0, Anyone, false},
	{"page", []string{"GET /{$}", "GET /assets/"}, nil, 0, Anyone, false},
	{"server metadata", []string{"GET /v2"}, []string{inference + "ServerMetadata",
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"}, 0, Self, false},

	{"model metadata", ofModel("GET", ""), []string{inference + "ModelMetadata"}, Read, OfModel,
		false},
	{"model ready", ofModel("GET", "/ready"), []string{inference + "ModelReady"}, Read, OfModel,
		false},
	{"model config", ofModel("GET", "/config"), []string{inference + "ModelConfig"}, Read, OfModel,
		false},
	{"model statistics", ofModel("GET", "/stats"), []string{inference + "ModelStatistics"}, Read,
		OfModel, false},
	{"statistics", []string{"GET /v2/models/stats"}, nil, Read, OfAll, false},
	{"infer", append(append(ofModel("POST", "/infer"), ofModel("POST", "/generate")...),
		ofModel("POST", "/generate_stream")...), []string{inference + "ModelInfer",
		inference + "ModelStreamInfer"}, Infer, OfModel, false},

	{"repository index", []string{"POST /v2/repository/index"}, []string{
		inference + "RepositoryIndex"}, Read, Some, false},
	{"model load", []string{"POST /v2/repository/models/{model}/load",
		"POST /v1/models/{model}/load"}, []string{
		inference + "RepositoryModelLoad"}, Load, OfModel, true},
	{"model unload", []string{"POST /v2/repository/models/{model}/unload",
		"POST /v1/models/{model}/unload"}, []string{
		inference + "RepositoryModelUnload"}, Load, OfModel, true},

	{"shared memory status", regions("GET", "/status"), []string{
		inference + "SystemSharedMemoryStatus", inference + "CudaSharedMemoryStatus"}, Infer, Some,
		false},
	{"shared memory register", []string{"POST /v2/systemsharedmemory/region/{region}/register",
		"POST /v2/cudasharedmemory/region/{region}/register"}, []string{
		inference + "SystemSharedMemoryRegister", inference + "CudaSharedMemoryRegister"}, Infer,
		Some, true},
	{"shared memory unregister", regions("POST", "/unregister"), []string{
		inference + "SystemSharedMemoryUnregister", inference + "CudaSharedMemoryUnregister"},
		Infer, Some, true},

	{"trace setting", append([]string{"GET /v2/trace/setting"}, ofModel("GET",
		"/trace/setting")...), []string{inference + "TraceSetting"}, Read, OfAll, false},
	{"trace change", append([]string{"POST /v2/trace/setting"}, ofModel("POST",
		"/trace/setting")...), []string{inference + "TraceSetting"}, Admin, OfAll, true},
	{"log setting", []string{"GET /v2/logging"}, []string{inference + "LogSettings"}, Read, OfAll,
		false},
	{"log change", []string{"POST /v2/logging"}, []string{inference + "LogSettings"}, Admin, OfAll,
		true},

	{"metrics", []string{"GET /metrics"}, nil, Read, OfAll, false},
	{"state", []string{"GET /v1/state", "GET /v1/events", "GET /v1/devices", "GET /v1/models"},
		nil, Read, Some, false},
	{"model state", []string{"GET /v1/models/{model}", "GET /v1/models/{model}/history",
		"GET /v1/models/{model}/graph"}, nil, Read, OfModel, false},
	{"model push", []string{"PUT /v1/models/{model}", "PUT /v1/models/{model}/{version}",
		"DELETE /v1/models/{model}", "DELETE /v1/models/{model}/{version}"}, nil, Push, OfModel,
		true},
	{"model rollback", []string{"POST /v1/models/{model}/rollback"}, nil, Load, OfModel, true},
	{"model share", []string{"POST /v1/models/{model}/share"}, nil, Admin, OfModel, true},
	{"program share", []string{"POST /v1/programs/{program}/share"}, nil, Admin, OfAll, true},
	{"policy change", []string{"POST /v1/policy", "PUT /v1/policy"}, nil, Admin, OfAll, true},

	{"job list", []string{"GET /v1/jobs", "GET /v1/jobs/{job}", "GET /v1/jobs/{job}/log",
		"GET /v1/jobs/{job}/result"}, nil, Job, Some, false},
	{"job change", []string{"POST /v1/jobs", "DELETE /v1/jobs/{job}",
		"POST /v1/jobs/{job}/cancel", "POST /v1/jobs/{job}/retry"}, nil, Job, Some, false},

	{"training state", []string{"GET /v1/train", "GET /v1/train/{name}",
		"GET /v1/train/{name}/events", "POST /v1/train/{name}/try"}, nil, Read, OfAll, false},
	{"training change", []string{"POST /v1/train/{name}/pause", "POST /v1/train/{name}/continue",
		"POST /v1/train/{name}/stop", "POST /v1/train/{name}/share"}, nil, Admin, OfAll, true},

	{"account list", []string{"GET /v1/accounts"}, nil, Admin, OfAll, false},
	{"account change", []string{"POST /v1/accounts", "DELETE /v1/accounts/{account}",
		"POST /v1/accounts/{account}/grants", "DELETE /v1/accounts/{account}/grants",
		"POST /v1/tokens"}, nil, Admin, OfAll, false},
	{"own account", []string{"GET /v1/account", "GET /v1/tokens",
		"DELETE /v1/tokens/{account}/{token}"}, nil, 0, Self, false},
	{"audit", []string{"GET /v1/audit"}, nil, Admin, OfAll, false},
}

// regions are the patterns of a path below shared memory, for one region and for all.
func regions(method, below string) (list []string) {
	for _, kind := range []string{"system", "cuda"} {
		list = append(list, method+" /v2/"+kind+"sharedmemory"+below,
			method+" /v2/"+kind+"sharedmemory/region/{region}"+below)
	}
	return list
}
