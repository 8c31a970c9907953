package rpc

import (
	"context"

	"google.golang.org/protobuf/proto"

	pb "github.com/weirgpu/weir/server/oip/inferencepb"
)

// traceSetting changes settings of traces where the message has some, and tells all.
func traceSetting(s *Server, _ context.Context, m *pb.TraceSettingRequest) (proto.Message, error) {
	var changes map[string][]string
	if len(m.Settings) > 0 {
		changes = make(map[string][]string, len(m.Settings))
		for name, v := range m.Settings {
			changes[name] = v.GetValue()
		}
	}
	now, err := s.o.Server.TraceSettings(m.ModelName, changes)
	if err != nil {
		return nil, err
	}
	a := &pb.TraceSettingResponse{Settings: map[string]*pb.TraceSettingResponse_SettingValue{}}
	for name, values := range now {
		a.Settings[name] = &pb.TraceSettingResponse_SettingValue{Value: values}
	}
	return a, nil
}

// logSettings changes settings of logs where the message has some, and tells all.
func logSettings(s *Server, _ context.Context, m *pb.LogSettingsRequest) (proto.Message, error) {
	var changes map[string]any
	if len(m.Settings) > 0 {
		changes = make(map[string]any, len(m.Settings))
		for name, v := range m.Settings {
			changes[name] = logSetting(v)
		}
	}
	now, err := s.o.Server.LogSettings(changes)
	if err != nil {
		return nil, err
	}
	a := &pb.LogSettingsResponse{Settings: map[string]*pb.LogSettingsResponse_SettingValue{}}
	for name, v := range now {
		a.Settings[name] = logSettingOf(v)
	}
	return a, nil
}

// logSetting is the value of a setting, nil where the message has none.
func logSetting(v *pb.LogSettingsRequest_SettingValue) any {
	switch c := v.GetParameterChoice().(type) {
	case *pb.LogSettingsRequest_SettingValue_BoolParam:
		return c.BoolParam
	case *pb.LogSettingsRequest_SettingValue_Uint32Param:
		return c.Uint32Param
	case *pb.LogSettingsRequest_SettingValue_StringParam:
		return c.StringParam
	}
	return nil
}

// logSettingOf is a value as its message has it.
func logSettingOf(v any) *pb.LogSettingsResponse_SettingValue {
	a := &pb.LogSettingsResponse_SettingValue{}
	switch v := v.(type) {
	case bool:
		a.ParameterChoice = &pb.LogSettingsResponse_SettingValue_BoolParam{BoolParam: v}
	case uint32:
		a.ParameterChoice = &pb.LogSettingsResponse_SettingValue_Uint32Param{Uint32Param: v}
	case string:
		a.ParameterChoice = &pb.LogSettingsResponse_SettingValue_StringParam{StringParam: v}
	}
	return a
}
