package rpc

import (
	"strings"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weirgpu/weir/server/oip"
)

// statusOf is the status of an error, with the time after which to ask again where there is one.
func statusOf(err error) *status.Status {
	if s, ok := status.FromError(err); ok {
		return s // gRPC's own, or none
	}
	s := &spb.Status{Code: int32(oip.KindOf(err).Code()), Message: text(err)}
	if after := oip.RetryAfter(err); after > 0 {
		s.Details = []*anypb.Any{retryInfo(after)}
	}
	return status.FromProto(s)
}

// retryInfo is a google.rpc.RetryInfo, whose one field is a google.protobuf.Duration
// (googleapis/googleapis, google/rpc/error_details.proto).
func retryInfo(after time.Duration) *anypb.Any {
	var d []byte
	d = protowire.AppendVarint(protowire.AppendTag(d, 1, protowire.VarintType),
		uint64(after/time.Second))
	d = protowire.AppendVarint(protowire.AppendTag(d, 2, protowire.VarintType),
		uint64(after%time.Second))
	return &anypb.Any{TypeUrl: "type.googleapis.com/google.rpc.RetryInfo",
		Value: protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), d)}
}

// text is what a client is told of an error: one line, without a stack.
func text(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// answered is the error of a handler as gRPC has it. What is the server's fault is logged.
func (s *Server) answered(method string, err error) error {
	if err == nil {
		return nil
	}
	st, known := status.FromError(err)
	if !known {
		if st = statusOf(err); oip.KindOf(err) == oip.Internal {
			s.o.Log.Error("call failed", "method", method, "error", err)
		}
	}
	return st.Err()
}
