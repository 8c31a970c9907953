package rpc

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weirgpu/weir/server"
	pb "github.com/weirgpu/weir/server/oip/inferencepb"
	"github.com/weirgpu/weir/server/telemetry"
	"github.com/weirgpu/weir/server/telemetry/otlp"
)

// TestTrace: calls and messages of streams with a client's trace are parts of it, and settings say
// which others are traced.
func TestTrace(t *testing.T) {
	var mu sync.Mutex
	traces := map[string]int{}
	c := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var got collector.ExportTraceServiceRequest
		b, err := io.ReadAll(r.Body)
		if err == nil {
			err = proto.Unmarshal(b, &got)
		}
		if err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, s := range got.ResourceSpans[0].ScopeSpans[0].Spans {
			if s.Name == "infer digits" {
				traces[string(s.ParentSpanId)]++
			}
		}
	}))
	t.Cleanup(c.Close)
	to, err := otlp.New(otlp.Options{URL: c.URL})
	if err != nil {
		t.Fatal(err)
	}
	w := begin(t, server.Options{Recorder: telemetry.New(telemetry.Options{Traces: to})},
		digitsSource())
	m, _ := picture(t, 1)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent",
		"00-0af7651916cd43dd8448eb211c80319c-6161616161616161-01")
	for range 2 {
		if _, err := ask[pb.ModelInferResponse](ctx, w, "ModelInfer", m); err != nil {
			t.Fatal(err)
		}
	}
	stream := w.open(t, metadata.AppendToOutgoingContext(t.Context(), "traceparent",
		"00-0af7651916cd43dd8448eb211c80319c-6262626262626262-01"))
	for range 3 {
		if err := stream.SendMsg(m); err != nil {
			t.Fatal(err)
		}
		if a, err := next(stream); err != nil || a.ErrorMessage != "" {
			t.Fatal(a, err)
		}
	}
	if _, err := ask[pb.ModelInferResponse](t.Context(), w, "ModelInfer", m); err != nil {
		t.Fatal(err)
	}
	set := func(model, name string, values ...string) []string {
		a, err := ask[pb.TraceSettingResponse](t.Context(), w, "TraceSetting",
			&pb.TraceSettingRequest{ModelName: model, Settings: map[string]*pb.
				TraceSettingRequest_SettingValue{name: {Value: values}}})
		if err != nil {
			t.Fatal(err)
		}
		return a.Settings[name].GetValue()
	}
	if got := set("digits", "trace_rate", "1"); len(got) != 1 || got[0] != "1" {
		t.Errorf("rate %q", got)
	}
	if _, err := ask[pb.ModelInferResponse](t.Context(), w, "ModelInfer", m); err != nil {
		t.Fatal(err)
	}
	if got := set("digits", "trace_rate"); len(got) != 1 || got[0] != "0" {
		t.Errorf("taken back: rate %q", got)
	}
	w.idle(t)
	_ = stream.CloseSend()
	_, _ = next(stream)
	to.Close(t.Context())
	if traces["aaaaaaaa"] != 2 || traces["bbbbbbbb"] != 3 || traces[""] != 1 {
		t.Errorf("requests by who asked: %v", traces)
	}
}

// TestTraceSettings: settings that are wrong are refused, and those of models that are not there.
func TestTraceSettings(t *testing.T) {
	w := begin(t, server.Options{}, digitsSource())
	a, err := ask[pb.TraceSettingResponse](t.Context(), w, "TraceSetting",
		&pb.TraceSettingRequest{})
	if err != nil || a.Settings["trace_level"].GetValue()[0] != "OFF" || len(a.Settings) != 6 {
		t.Errorf("%v: %v", a, err)
	}
	for _, c := range []struct {
		model, name, value string
		code               codes.Code
	}{
		{"none", "trace_rate", "5", codes.NotFound},
		{"", "trace_rate", "-5", codes.InvalidArgument},
		{"", "trace_level", "TIMESTAMPS", codes.Unimplemented},
	} {
		_, err := ask[pb.TraceSettingResponse](t.Context(), w, "TraceSetting",
			&pb.TraceSettingRequest{ModelName: c.model, Settings: map[string]*pb.
				TraceSettingRequest_SettingValue{c.name: {Value: []string{c.value}}}})
		if status.Code(err) != c.code {
			t.Errorf("%s %s: %v", c.name, c.value, err)
		}
	}
}

// TestLogSettings: levels of logs are read and changed as Triton has them.
func TestLogSettings(t *testing.T) {
	set := func(w *world, given any) (*pb.LogSettingsResponse, error) {
		m := &pb.LogSettingsRequest{Settings: map[string]*pb.LogSettingsRequest_SettingValue{}}
		switch v := given.(type) {
		case bool:
			m.Settings["log_info"] = &pb.LogSettingsRequest_SettingValue{ParameterChoice: &pb.
				LogSettingsRequest_SettingValue_BoolParam{BoolParam: v}}
		case uint32:
			m.Settings["log_verbose_level"] = &pb.LogSettingsRequest_SettingValue{
				ParameterChoice: &pb.LogSettingsRequest_SettingValue_Uint32Param{Uint32Param: v}}
		case string:
			m.Settings["log_file"] = &pb.LogSettingsRequest_SettingValue{ParameterChoice: &pb.
				LogSettingsRequest_SettingValue_StringParam{StringParam: v}}
		case error:
			m.Settings["log_info"] = nil
		}
		return ask[pb.LogSettingsResponse](t.Context(), w, "LogSettings", m)
	}
	w := begin(t, server.Options{Logs: telemetry.NewLogs(slog.DiscardHandler)}, digitsSource())
	for _, v := range []any{nil, false, uint32(3), nil} {
		a, err := set(w, v)
		if err != nil || len(a.Settings) != 6 {
			t.Fatalf("%v: %v, %v", v, a, err)
		}
		info, verbose := a.Settings["log_info"].GetBoolParam(), a.Settings["log_verbose_level"]
		if v == false && info || v == uint32(3) && verbose.GetUint32Param() != 3 ||
			a.Settings["log_format"].GetStringParam() != "ISO8601" {
			t.Errorf("%v: %v", v, a)
		}
	}
	for v, code := range map[any]codes.Code{"/x": codes.Unimplemented,
		io.EOF: codes.InvalidArgument} {
		if _, err := set(w, v); status.Code(err) != code {
			t.Errorf("%v: %v", v, err)
		}
	}
}

// TestLogSettingsOfOthers: a server does not switch logs that it was not given.
func TestLogSettingsOfOthers(t *testing.T) {
	w := begin(t, server.Options{}, digitsSource())
	_, err := ask[pb.LogSettingsResponse](t.Context(), w, "LogSettings", &pb.LogSettingsRequest{})
	if status.Code(err) != codes.Unimplemented {
		t.Error(err)
	}
}
