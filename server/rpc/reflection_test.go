package rpc

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/weirgpu/weir/server"
	pb "github.com/weirgpu/weir/server/oip/inferencepb"
)

// TestReflection: a client finds the services and what their messages are, by both names.
func TestReflection(t *testing.T) {
	w := begin(t, server.Options{}, digitsSource())
	for _, name := range reflections {
		s, err := w.client.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true,
			ServerStreams: true}, "/"+name+"/ServerReflectionInfo")
		if err != nil {
			t.Fatal(err)
		}
		ask := func(
			m *reflectionpb.ServerReflectionRequest) *reflectionpb.ServerReflectionResponse {
			t.Helper()
			m.Host = "h"
			a := &reflectionpb.ServerReflectionResponse{}
			if err := s.SendMsg(m); err != nil {
				t.Fatal(err)
			}
			if err := s.RecvMsg(a); err != nil {
				t.Fatal(err)
			}
			if a.ValidHost != "h" || !proto.Equal(a.OriginalRequest, m) {
				t.Errorf("%v answers %v", a, m)
			}
			return a
		}
		symbol := func(name string) *reflectionpb.ServerReflectionResponse {
			return ask(&reflectionpb.ServerReflectionRequest{
				MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{
					FileContainingSymbol: name}})
		}
		list := ask(&reflectionpb.ServerReflectionRequest{
			MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
		if got := fmt.Sprint(list.GetListServicesResponse().GetService()); !strings.Contains(got,
			service) || !strings.Contains(got, "grpc.health.v1.Health") ||
			strings.Count(got, "ServerReflection") != 2 {
			t.Errorf("services %s", got)
		}
		for _, name := range []string{service, "inference.ModelConfig", "grpc.health.v1.Health"} {
			var set descriptorpb.FileDescriptorSet
			files := symbol(name).GetFileDescriptorResponse().GetFileDescriptorProto()
			for i := len(files) - 1; i >= 0; i-- { // what a file needs comes behind it
				f := &descriptorpb.FileDescriptorProto{}
				if err := proto.Unmarshal(files[i], f); err != nil {
					t.Fatal(err)
				}
				set.File = append(set.File, f)
			}
			all, err := protodesc.NewFiles(&set)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := all.FindDescriptorByName(protoreflect.FullName(name)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if a := symbol("no.Such"); a.GetErrorResponse().GetErrorCode() != int32(codes.NotFound) {
			t.Errorf("%v", a)
		}
	}
	w.idle(t)
}

// TestReflectionOnce: a message that asks for much has the last of it, which is found once.
func TestReflectionOnce(t *testing.T) {
	w := begin(t, server.Options{})
	one := part(nil, askFile, []byte(pb.File_server_oip_inferencepb_inference_proto.Path()))
	many := append(bytes.Repeat(one, 1000), part(nil, askServices, nil)...)
	costs := func(asked []byte) float64 {
		return testing.AllocsPerRun(1, func() {
			if _, err := w.described(asked); err != nil {
				t.Fatal(err)
			}
		})
	}
	if n, least := costs(many), costs(one); n > least {
		t.Errorf("%v allocations for many, and %v for one", n, least)
	}
	got, err := w.described(many)
	if want := part(nil, tellServices, w.services()); err != nil || !bytes.HasSuffix(got, want) {
		t.Errorf("it has not the services at its end: %v", err)
	}
}

// TestHealth: probes learn whether the server is ready, and are told when that changes.
func TestHealth(t *testing.T) {
	w := begin(t, server.Options{}, digitsSource())
	check := func(service string) (healthpb.HealthCheckResponse_ServingStatus, error) {
		a := &healthpb.HealthCheckResponse{}
		err := w.client.Invoke(t.Context(), "/grpc.health.v1.Health/Check",
			&healthpb.HealthCheckRequest{Service: service}, a)
		return a.Status, err
	}
	watch, err := healthpb.NewHealthClient(w.client).Watch(t.Context(),
		&healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []healthpb.HealthCheckResponse_ServingStatus{
		healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING} {
		for _, name := range []string{"", service} {
			if got, err := check(name); got != want || err != nil {
				t.Errorf("%q is %v, %v, want %v", name, got, err, want)
			}
		}
		if a, err := watch.Recv(); err != nil || a.Status != want {
			t.Errorf("watched: %v, %v, want %v", a, err, want)
		}
		w.models.Retire()
	}
	if _, err := check("no"); status.Code(err) != codes.NotFound {
		t.Errorf("a service that is not there: %v", err)
	}
	list := &healthpb.HealthListResponse{}
	if err := w.client.Invoke(t.Context(), "/grpc.health.v1.Health/List",
		&healthpb.HealthListRequest{}, list); err != nil || len(list.Statuses) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	w.idle(t)
}
