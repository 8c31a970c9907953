package rpc

import (
	"context"
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/weirgpu/weir/server/oip"
	pb "github.com/weirgpu/weir/server/oip/inferencepb"
	"github.com/weirgpu/weir/server/shm"
)

func memoryStatus(s *Server, ctx context.Context, m *pb.SystemSharedMemoryStatusRequest) (
	proto.Message, error) {
	list, err := s.o.Server.Memory(ctx, m.Name)
	if err != nil {
		return nil, err
	}
	a := &pb.SystemSharedMemoryStatusResponse{
		Regions: map[string]*pb.SystemSharedMemoryStatusResponse_RegionStatus{}}
	for _, in := range list {
		a.Regions[in.Name] = &pb.SystemSharedMemoryStatusResponse_RegionStatus{Name: in.Name,
			Key: in.Key, Offset: uint64(in.Offset), ByteSize: uint64(in.Size)}
	}
	return a, nil
}

func memoryRegister(s *Server, ctx context.Context, m *pb.SystemSharedMemoryRegisterRequest) (
	proto.Message, error) {
	if m.Offset > math.MaxInt64 || m.ByteSize > math.MaxInt64 {
		return nil, oip.Faultf(oip.Invalid, "%d bytes from %d on: the numbers are too large",
			m.ByteSize, m.Offset)
	}
	return &pb.SystemSharedMemoryRegisterResponse{}, s.o.Server.RegisterMemory(ctx, shm.Info{
		Name: m.Name, Key: m.Key, Offset: int64(m.Offset), Size: int64(m.ByteSize)})
}

func memoryUnregister(s *Server, ctx context.Context, m *pb.SystemSharedMemoryUnregisterRequest) (
	proto.Message, error) {
	return &pb.SystemSharedMemoryUnregisterResponse{}, s.o.Server.UnregisterMemory(ctx, m.Name)
}

func cudaStatus(s *Server, _ context.Context, m *pb.CudaSharedMemoryStatusRequest) (proto.Message,
	error) {
	return &pb.CudaSharedMemoryStatusResponse{}, s.o.Server.CUDAMemory(m.Name)
}

func cudaRegister(s *Server, _ context.Context, m *pb.CudaSharedMemoryRegisterRequest) (
	proto.Message, error) {
	if m.Name == "" {
		return nil, oip.Faultf(oip.Invalid, "the region has no name")
	}
	return &pb.CudaSharedMemoryRegisterResponse{}, s.o.Server.CUDAMemory(m.Name)
}

func cudaUnregister(s *Server, _ context.Context, m *pb.CudaSharedMemoryUnregisterRequest) (
	proto.Message, error) {
	return &pb.CudaSharedMemoryUnregisterResponse{}, s.o.Server.CUDAMemory(m.Name)
}
