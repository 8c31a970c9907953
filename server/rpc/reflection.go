package rpc

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"maps"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/weirgpu/weir/server/auth"
	pb "github.com/weirgpu/weir/server/oip/inferencepb"
)

// encoded is a message as it is sent.
type encoded []byte

// reflections are the two names of one service: the second is that of old clients.
var reflections = []string{"grpc.reflection.v1.ServerReflection",
	"grpc.reflection.v1alpha.ServerReflection"}

// reflect answers what a client asks of the services (grpc/grpc, src/proto/grpc/reflection/v1/
// reflection.proto). The library's own way takes a third of a megabyte of code more.
func reflect(s *Server, ctx context.Context, stream grpc.ServerStream, k *call) error {
	if _, _, err := s.allow(ctx, k, auth.Call{Stream: true}); err != nil {
		return err
	}
	for {
		r, err := receive(stream, k)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		asked := r.data.Materialize()
		r.free()
		a, err := s.described(asked)
		if err == nil {
			err = stream.SendMsg(a)
		}
		if err != nil {
			return err
		}
	}
}

// The fields of ServerReflectionRequest and ServerReflectionResponse that are used.
const (
	askFile, askSymbol, askServices                              = 3, 4, 7
	tellHost, tellRequest, tellFiles, tellServices, tellNotFound = 1, 2, 4, 6, 7
)

// described answers one request: of several things that it asks for, the last, as protobuf has it.
func (s *Server) described(asked []byte) (encoded, error) {
	var host, name []byte
	var ask protowire.Number
	for rest := asked; len(rest) > 0; {
		field, kind, n := protowire.ConsumeTag(rest)
		if n < 0 || kind != protowire.BytesType {
			return nil, protowire.ParseError(min(n, -1))
		}
		text, size := protowire.ConsumeBytes(rest[n:])
		if size < 0 {
			return nil, protowire.ParseError(size)
		}
		rest = rest[n+size:]
		switch field {
		case tellHost:
			host = text
		case askFile, askSymbol, askServices:
			ask, name = field, text
		}
	}
	number, answer := s.found(ask, string(name))
	b := part(nil, tellHost, host)
	b = part(b, tellRequest, asked)
	return part(b, number, answer), nil
}

// found is the field of an answer, and what it has, to what is asked by a field and a name.
func (s *Server) found(ask protowire.Number, name string) (protowire.Number, []byte) {
	switch ask {
	case askFile:
		return files(name)
	case askSymbol:
		return files(pathOf(protoreflect.FullName(name)))
	case askServices:
		return tellServices, s.services()
	}
	return tellNotFound, notFound("ask for a file, a symbol or the services")
}

func part(b []byte, number protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), v)
}

func notFound(text string) []byte {
	b := protowire.AppendTag(nil, 1, protowire.VarintType)
	b = protowire.AppendVarint(b, uint64(codes.NotFound))
	return part(b, 2, []byte(text))
}

func (s *Server) services() (b []byte) {
	for _, name := range slices.Sorted(maps.Keys(s.grpc.GetServiceInfo())) {
		b = part(b, 1, part(nil, 1, []byte(name)))
	}
	return b
}

// sources are the files that define the services, compressed, by path: that of a message is in its
// Descriptor. What replaces that function builds the files anew, by packages that would take the
// binary for people beyond its bound.
func sources() map[string][]byte {
	//lint:ignore SA1019 see above
	config, _ := (&pb.ModelConfig{}).Descriptor()
	//lint:ignore SA1019 see above
	calls, _ := (&pb.ServerLiveRequest{}).Descriptor()
	//lint:ignore SA1019 see above
	health, _ := (&healthpb.HealthCheckRequest{}).Descriptor()
	return map[string][]byte{
		pb.File_server_oip_inferencepb_config_proto.Path():    config,
		pb.File_server_oip_inferencepb_inference_proto.Path(): calls,
		healthpb.File_grpc_health_v1_health_proto.Path():      health,
	}
}

// pathOf returns the path of the file that defines a symbol, "" where none does.
func pathOf(symbol protoreflect.FullName) string {
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(symbol)
	if err != nil {
		return ""
	}
	return d.ParentFile().Path()
}

// files returns a file and those that it needs, as the answer's field of that number.
func files(path string) (protowire.Number, []byte) {
	all, b := sources(), []byte(nil)
	if all[path] == nil {
		return tellNotFound, notFound("there is no such file or symbol")
	}
	needs := []string{path}
	if d, err := protoregistry.GlobalFiles.FindFileByPath(path); err == nil {
		for i := range d.Imports().Len() {
			needs = append(needs, d.Imports().Get(i).Path())
		}
	}
	for _, p := range needs {
		r, err := gzip.NewReader(bytes.NewReader(all[p]))
		if err != nil {
			continue
		}
		if file, err := io.ReadAll(r); err == nil {
			b = part(b, 1, file)
		}
	}
	return tellFiles, b
}
