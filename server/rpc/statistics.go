package rpc

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
	pb "github.com/weirgpu/weir/server/oip/inferencepb"
)

func modelStatistics(s *Server, ctx context.Context, m *pb.ModelStatisticsRequest) (proto.Message,
	error) {
	all, err := s.o.Server.Statistics(m.Name, m.Version)
	if err != nil {
		return nil, err
	}
	a := &pb.ModelStatisticsResponse{}
	for i := range all {
		if auth.May(ctx, auth.Read, all[i].Name) {
			a.ModelStats = append(a.ModelStats, statistics(&all[i]))
		}
	}
	return a, nil
}

func statistics(m *oip.Statistics) *pb.ModelStatistics {
	r := &m.Requests
	a := &pb.ModelStatistics{Name: m.Name, Version: m.Version, LastInference: m.LastInference,
		InferenceCount: m.Inferences, ExecutionCount: m.Executions,
		InferenceStats: &pb.InferStatistics{Success: took(r.Success), Fail: took(r.Fail),
			Queue: took(r.Queue), ComputeInput: took(r.Input), ComputeInfer: took(r.Infer),
			ComputeOutput: took(r.Output), CacheHit: took(r.CacheHit),
			CacheMiss: took(r.CacheMiss)}}
	for _, b := range m.Batches {
		a.BatchStats = append(a.BatchStats, &pb.InferBatchStatistics{BatchSize: b.Size,
			ComputeInput: took(b.Input), ComputeInfer: took(b.Infer),
			ComputeOutput: took(b.Output)})
	}
	return a
}

func took(d oip.Duration) *pb.StatisticDuration {
	return &pb.StatisticDuration{Count: d.Count, Ns: d.NS}
}
