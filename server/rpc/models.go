package rpc

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
	pb "github.com/weirgpu/weir/server/oip/inferencepb"
)

func serverLive(*Server, context.Context, *pb.ServerLiveRequest) (proto.Message, error) {
	return &pb.ServerLiveResponse{Live: true}, nil
}

func serverReady(s *Server, _ context.Context, _ *pb.ServerReadyRequest) (proto.Message, error) {
	return &pb.ServerReadyResponse{Ready: s.o.Server.Ready()}, nil
}

func serverMetadata(s *Server, _ context.Context, _ *pb.ServerMetadataRequest) (proto.Message,
	error) {
	about := s.o.Server.About()
	return &pb.ServerMetadataResponse{Name: about.Name, Version: about.Version,
		Extensions: about.Extensions}, nil
}

// modelReady answers that a model is not ready of which there is none: tritonclient asks so whether
// an unloaded one is gone.
func modelReady(s *Server, _ context.Context, m *pb.ModelReadyRequest) (proto.Message, error) {
	ready, err := s.o.Server.ModelReady(m.Name, m.Version)
	if err != nil && oip.KindOf(err) != oip.NotFound {
		return nil, err
	}
	return &pb.ModelReadyResponse{Ready: ready}, nil
}

func modelMetadata(s *Server, _ context.Context, m *pb.ModelMetadataRequest) (proto.Message,
	error) {
	d, err := s.o.Server.Metadata(m.Name, m.Version)
	if err != nil {
		return nil, err
	}
	return &pb.ModelMetadataResponse{Name: d.Name, Versions: d.Versions, Platform: d.Platform,
		Inputs: tensors(d.Inputs), Outputs: tensors(d.Outputs)}, nil
}

func tensors(all []oip.TensorFields) []*pb.ModelMetadataResponse_TensorMetadata {
	var list []*pb.ModelMetadataResponse_TensorMetadata
	for _, f := range all {
		list = append(list, &pb.ModelMetadataResponse_TensorMetadata{Name: f.Name,
			Datatype: f.Datatype, Shape: f.Shape})
	}
	return list
}

func repositoryIndex(s *Server, ctx context.Context, m *pb.RepositoryIndexRequest) (proto.Message,
	error) {
	a := &pb.RepositoryIndexResponse{}
	for _, e := range s.o.Server.Repository(m.Ready) {
		if auth.May(ctx, auth.Read, e.Name) {
			a.Models = append(a.Models, &pb.RepositoryIndexResponse_ModelIndex{Name: e.Name,
				Version: e.Version, State: e.State, Reason: e.Reason})
		}
	}
	return a, nil
}

func repositoryModelLoad(s *Server, ctx context.Context, m *pb.RepositoryModelLoadRequest) (
	proto.Message, error) {
	if err := s.o.Server.LoadModel(ctx, m.ModelName, parameters(m.Parameters)); err != nil {
		return nil, err
	}
	return &pb.RepositoryModelLoadResponse{}, nil
}

func repositoryModelUnload(s *Server, ctx context.Context, m *pb.RepositoryModelUnloadRequest) (
	proto.Message, error) {
	if err := s.o.Server.UnloadModel(ctx, m.ModelName, parameters(m.Parameters)); err != nil {
		return nil, err
	}
	return &pb.RepositoryModelUnloadResponse{}, nil
}

// parameters are those of a load or unload; bytes are strings.
func parameters(all map[string]*pb.ModelRepositoryParameter) oip.Parameters {
	p := oip.Parameters{}
	for key, v := range all {
		switch c := v.GetParameterChoice().(type) {
		case *pb.ModelRepositoryParameter_BoolParam:
			p[key] = c.BoolParam
		case *pb.ModelRepositoryParameter_Int64Param:
			p[key] = c.Int64Param
		case *pb.ModelRepositoryParameter_StringParam:
			p[key] = c.StringParam
		case *pb.ModelRepositoryParameter_BytesParam:
			p[key] = string(c.BytesParam)
		}
	}
	return p
}

func modelConfig(s *Server, _ context.Context, m *pb.ModelConfigRequest) (proto.Message, error) {
	c, err := s.o.Server.Config(m.Name, m.Version)
	if err != nil {
		return nil, err
	}
	return &pb.ModelConfigResponse{Config: config(c)}, nil
}

// config is a configuration as its message has it.
func config(c *oip.Config) *pb.ModelConfig {
	a := &pb.ModelConfig{Name: c.Name, Platform: c.Platform, Backend: c.Backend,
		MaxBatchSize: int32(c.MaxBatchSize), DefaultModelFilename: c.DefaultModelFilename,
		VersionPolicy: versions(c.VersionPolicy), Parameters: map[string]*pb.ModelParameter{}}
	for _, v := range c.Input {
		a.Input = append(a.Input, &pb.ModelInput{Name: v.Name, Dims: v.Dims,
			DataType: dataType(v.DataType)})
	}
	for _, v := range c.Output {
		a.Output = append(a.Output, &pb.ModelOutput{Name: v.Name, Dims: v.Dims,
			DataType: dataType(v.DataType), LabelFilename: v.LabelFilename})
	}
	for key, v := range c.Parameters {
		a.Parameters[key] = &pb.ModelParameter{StringValue: v.StringValue}
	}
	if b := c.DynamicBatching; b != nil {
		a.SchedulingChoice = &pb.ModelConfig_DynamicBatching{DynamicBatching: batching(b)}
	}
	if e := c.EnsembleScheduling; e != nil {
		a.SchedulingChoice = &pb.ModelConfig_EnsembleScheduling{EnsembleScheduling: ensemble(e)}
	}
	if r := c.ResponseCache; r != nil {
		a.ResponseCache = &pb.ModelResponseCache{Enable: r.Enable}
	}
	if p := c.TransactionPolicy; p != nil {
		a.ModelTransactionPolicy = &pb.ModelTransactionPolicy{Decoupled: p.Decoupled}
	}
	for _, w := range c.ModelWarmup {
		a.ModelWarmup = append(a.ModelWarmup, warmup(w))
	}
	return a
}

func dataType(name string) pb.DataType { return pb.DataType(pb.DataType_value[name]) }

func versions(p oip.VersionPolicy) *pb.ModelVersionPolicy {
	a := &pb.ModelVersionPolicy{}
	switch {
	case p.Latest != nil:
		a.PolicyChoice = &pb.ModelVersionPolicy_Latest_{Latest: &pb.ModelVersionPolicy_Latest{
			NumVersions: uint32(p.Latest.NumVersions)}}
	case p.All != nil:
		a.PolicyChoice = &pb.ModelVersionPolicy_All_{All: &pb.ModelVersionPolicy_All{}}
	case p.Specific != nil:
		a.PolicyChoice = &pb.ModelVersionPolicy_Specific_{
			Specific: &pb.ModelVersionPolicy_Specific{Versions: p.Specific.Versions}}
	}
	return a
}

func batching(b *oip.DynamicBatching) *pb.ModelDynamicBatching {
	q := b.DefaultQueuePolicy
	a := &pb.ModelDynamicBatching{
		MaxQueueDelayMicroseconds: uint64(b.MaxQueueDelayMicroseconds),
		PriorityLevels:            uint64(b.PriorityLevels),
		DefaultPriorityLevel:      uint64(b.DefaultPriorityLevel),
		DefaultQueuePolicy: &pb.ModelQueuePolicy{
			TimeoutAction: pb.ModelQueuePolicy_TimeoutAction(
				pb.ModelQueuePolicy_TimeoutAction_value[q.TimeoutAction]),
			DefaultTimeoutMicroseconds: uint64(q.DefaultTimeoutMicroseconds),
			AllowTimeoutOverride:       q.AllowTimeoutOverride,
			MaxQueueSize:               uint32(q.MaxQueueSize)}}
	for _, n := range b.PreferredBatchSize {
		a.PreferredBatchSize = append(a.PreferredBatchSize, int32(n))
	}
	return a
}

func ensemble(e *oip.EnsembleScheduling) *pb.ModelEnsembling {
	a := &pb.ModelEnsembling{}
	for _, st := range e.Step {
		a.Step = append(a.Step, &pb.ModelEnsembling_Step{ModelName: st.ModelName,
			ModelVersion: st.ModelVersion, InputMap: st.InputMap, OutputMap: st.OutputMap})
	}
	return a
}

func warmup(w oip.Warmup) *pb.ModelWarmup {
	a := &pb.ModelWarmup{Name: w.Name, BatchSize: uint32(w.BatchSize), Count: uint32(w.Count),
		Inputs: map[string]*pb.ModelWarmup_Input{}}
	for name, v := range w.Inputs {
		in := &pb.ModelWarmup_Input{DataType: dataType(v.DataType), Dims: v.Dims}
		switch {
		case v.ZeroData:
			in.InputDataType = &pb.ModelWarmup_Input_ZeroData{ZeroData: true}
		case v.RandomData:
			in.InputDataType = &pb.ModelWarmup_Input_RandomData{RandomData: true}
		}
		a.Inputs[name] = in
	}
	return a
}
