package server

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/shm"
)

// RegisterMemory makes shared memory known to the requests of the context's owner (auth.Owner), as
// shm.Regions.Register has it. The error is an *oip.Fault.
func (s *Server) RegisterMemory(ctx context.Context, in shm.Info) error {
	if s.regions == nil {
		return errNoMemory
	}
	in.Foreign = auth.Foreign(ctx)
	return memoryFault(s.regions.Register(auth.Owner(ctx), in))
}

// UnregisterMemory forgets a region of the context's owner, or with "" all of them. The error is
// an *oip.Fault.
func (s *Server) UnregisterMemory(ctx context.Context, name string) error {
	switch account := auth.Owner(ctx); {
	case s.regions == nil:
		return errNoMemory
	case name == "":
		s.regions.UnregisterAll(account)
	default:
		s.regions.Unregister(account, name)
	}
	return nil
}

// Memory describes a region of the context's owner, or with "" all of them, by name. The error is
// an *oip.Fault.
func (s *Server) Memory(ctx context.Context, name string) ([]shm.Info, error) {
	if s.regions == nil {
		return nil, errNoMemory
	}
	list := s.regions.List(auth.Owner(ctx))
	if name == "" {
		return list, nil
	}
	at := slices.IndexFunc(list, func(in shm.Info) bool { return in.Name == name })
	if at < 0 {
		return nil, oip.Faultf(oip.NotFound, "Unable to find system shared memory region: %.200q",
			name)
	}
	return list[at : at+1], nil
}

// CUDAMemory is the error about memory of GPUs by that name; with "" it is about all of it, of
// which there is none: clients that forget what they have left begin so.
func (s *Server) CUDAMemory(name string) error {
	if name == "" {
		return nil
	}
	return oip.Faultf(oip.Unsupported, "CUDA shared memory: this server computes on no GPU that "+
		"has any")
}

// region is a region of shared memory in JSON (Triton, extension_shared_memory.md).
type region struct {
	Name   string `json:"name,omitempty"`
	Key    string `json:"key"`
	Offset int64  `json:"offset"`
	Size   int64  `json:"byte_size"`
}

// memoryRoutes are the endpoints of shared memory.
func (s *Server) memoryRoutes(on func(methods, path string, h endpoint)) {
	for _, part := range []string{"", "/region/{region}"} {
		on("GET", "/v2/systemsharedmemory"+part+"/status", s.memoryStatus)
		on("POST", "/v2/systemsharedmemory"+part+"/unregister", s.memoryUnregister)
		on("GET", "/v2/cudasharedmemory"+part+"/status", s.cudaMemory)
		on("POST", "/v2/cudasharedmemory"+part+"/unregister", s.cudaMemory)
	}
	on("POST", "/v2/systemsharedmemory/region/{region}/register", s.memoryRegister)
	on("POST", "/v2/cudasharedmemory/region/{region}/register", s.cudaMemory)
}

func (s *Server) memoryRegister(w http.ResponseWriter, r *http.Request) error {
	var in region
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostSettings)).Decode(&in)
	if err != nil {
		return oip.Faultf(oip.Invalid, "the body is no object of JSON with key, offset and "+
			"byte_size: %v", err)
	}
	if err = s.RegisterMemory(r.Context(), shm.Info{Name: r.PathValue("region"), Key: in.Key,
		Offset: in.Offset, Size: in.Size}); err != nil {
		return err
	}
	write(w, http.StatusOK, struct{}{})
	return nil
}

func (s *Server) memoryUnregister(w http.ResponseWriter, r *http.Request) error {
	if err := s.UnregisterMemory(r.Context(), r.PathValue("region")); err != nil {
		return err
	}
	write(w, http.StatusOK, struct{}{})
	return nil
}

func (s *Server) memoryStatus(w http.ResponseWriter, r *http.Request) error {
	list, err := s.Memory(r.Context(), r.PathValue("region"))
	if err != nil {
		return err
	}
	shown := []region{}
	for _, in := range list {
		shown = append(shown, region{in.Name, in.Key, in.Offset, in.Size})
	}
	write(w, http.StatusOK, shown)
	return nil
}

func (s *Server) cudaMemory(w http.ResponseWriter, r *http.Request) error {
	if err := s.CUDAMemory(r.PathValue("region")); err != nil {
		return err
	}
	if r.Method == http.MethodGet {
		write(w, http.StatusOK, []region{})
		return nil
	}
	write(w, http.StatusOK, struct{}{})
	return nil
}
