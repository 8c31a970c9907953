package rpc

import (
	"context"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	"github.com/weirgpu/weir/server/oip"
	pb "github.com/weirgpu/weir/server/oip/inferencepb"
)

const service = "inference.GRPCInferenceService"

// register gives gRPC all services.
func (s *Server) register() {
	s.add(service, map[string]*method{
		"ServerLive":     {serve: unary(nil, serverLive)},
		"ServerReady":    {serve: unary(nil, serverReady)},
		"ServerMetadata": {serve: unary(nil, serverMetadata)},
		"ModelReady":     {serve: unary((*pb.ModelReadyRequest).GetName, modelReady)},
		"ModelMetadata":  {serve: unary((*pb.ModelMetadataRequest).GetName, modelMetadata)},
		"ModelConfig":    {serve: unary((*pb.ModelConfigRequest).GetName, modelConfig)},
		"ModelStatistics": {serve: unary((*pb.ModelStatisticsRequest).GetName,
			modelStatistics)},

		"ModelInfer":       {serve: modelInfer, large: true},
		"ModelStreamInfer": {serve: modelStreamInfer, large: true, stream: true},

		"RepositoryIndex": {serve: unary(nil, repositoryIndex)},
		"RepositoryModelLoad": {serve: unary((*pb.RepositoryModelLoadRequest).GetModelName,
			repositoryModelLoad), large: true},
		"RepositoryModelUnload": {serve: unary((*pb.RepositoryModelUnloadRequest).GetModelName,
			repositoryModelUnload)},

		"SystemSharedMemoryStatus":     {serve: unary(nil, memoryStatus)},
		"SystemSharedMemoryRegister":   {serve: unary(nil, memoryRegister)},
		"SystemSharedMemoryUnregister": {serve: unary(nil, memoryUnregister)},
		"CudaSharedMemoryStatus":       {serve: unary(nil, cudaStatus)},
		"CudaSharedMemoryRegister":     {serve: unary(nil, cudaRegister)},
		"CudaSharedMemoryUnregister":   {serve: unary(nil, cudaUnregister)},

		"TraceSetting": {serve: unary(nil, traceSetting)},
		"LogSettings":  {serve: unary(nil, logSettings)},
	})
	s.add("grpc.health.v1.Health", map[string]*method{
		"Check": {serve: unary(nil, healthCheck)},
		"List":  {serve: unary(nil, healthList)},
		"Watch": {serve: healthWatch},
	})
	for _, name := range reflections {
		s.add(name, map[string]*method{"ServerReflectionInfo": {stream: true, serve: reflect}})
	}
}

// add gives gRPC a service.
func (s *Server) add(name string, methods map[string]*method) {
	desc := grpc.ServiceDesc{ServiceName: name}
	for short, m := range methods {
		m.name = "/" + name + "/" + short
		desc.Streams = append(desc.Streams, s.desc(short, m))
	}
	s.grpc.RegisterService(&desc, nil)
}

func healthCheck(s *Server, _ context.Context, m *healthpb.HealthCheckRequest) (proto.Message,
	error) {
	if m.Service != "" && m.Service != service {
		return nil, oip.Faultf(oip.NotFound, "there is no service %.200q: ask about %s, or \"\" "+
			"for the server", m.Service, service)
	}
	return s.health(), nil
}

func (s *Server) health() *healthpb.HealthCheckResponse {
	if s.o.Server.Ready() {
		return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}
	}
	return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_NOT_SERVING}
}

func healthList(s *Server, _ context.Context, _ *healthpb.HealthListRequest) (proto.Message,
	error) {
	return &healthpb.HealthListResponse{Statuses: map[string]*healthpb.HealthCheckResponse{
		"": s.health(), service: s.health()}}, nil
}
