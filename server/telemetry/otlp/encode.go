package otlp

import (
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// The numbers of fields are those of opentelemetry/proto: collector/trace/v1/trace_service.proto,
// trace/v1/trace.proto, common/v1/common.proto and resource/v1/resource.proto.

// appendRequest appends an ExportTraceServiceRequest with the spans of one resource.
func appendRequest(dst []byte, resource []Attr, scope string, spans []Span) []byte {
	var all, of []byte
	for _, a := range resource {
		of = appendMessage(of, 1, appendAttr(nil, a))
	}
	all = appendMessage(all, 1, of)
	of = appendMessage(nil, 1, appendText(nil, 1, scope))
	var one []byte
	for i := range spans {
		one = appendSpan(one[:0], &spans[i])
		of = appendMessage(of, 2, one)
	}
	return appendMessage(dst, 1, appendMessage(all, 2, of))
}

// appendSpan appends a Span.
func appendSpan(dst []byte, s *Span) []byte {
	dst = appendMessage(dst, 1, s.Trace[:])
	dst = appendMessage(dst, 2, s.ID[:])
	dst = appendText(dst, 3, s.State)
	if s.Parent != (SpanID{}) {
		dst = appendMessage(dst, 4, s.Parent[:])
	}
	dst = appendText(dst, 5, s.Name)
	dst = protowire.AppendTag(dst, 6, protowire.VarintType)
	dst = protowire.AppendVarint(dst, uint64(s.Kind))
	dst = protowire.AppendTag(dst, 7, protowire.Fixed64Type)
	dst = protowire.AppendFixed64(dst, uint64(s.Begin.UnixNano()))
	dst = protowire.AppendTag(dst, 8, protowire.Fixed64Type)
	dst = protowire.AppendFixed64(dst, uint64(s.End.UnixNano()))
	for _, a := range s.Attrs {
		dst = appendMessage(dst, 9, appendAttr(nil, a))
	}
	if s.Failed {
		status := appendText(nil, 2, s.Reason)
		status = protowire.AppendTag(status, 3, protowire.VarintType)
		status = protowire.AppendVarint(status, 2) // STATUS_CODE_ERROR
		dst = appendMessage(dst, 15, status)
	}
	return dst
}

// appendAttr appends a KeyValue.
func appendAttr(dst []byte, a Attr) []byte {
	var value []byte
	if a.IsText {
		value = protowire.AppendTag(value, 1, protowire.BytesType) // an empty one is one too
		value = protowire.AppendString(value, strings.ToValidUTF8(a.Text, "\ufffd"))
	} else {
		value = protowire.AppendTag(value, 3, protowire.VarintType)
		value = protowire.AppendVarint(value, uint64(a.Number))
	}
	return appendMessage(appendText(dst, 1, a.Key), 2, value)
}

func appendMessage(dst []byte, field protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, field, protowire.BytesType), m)
}

// appendText appends a string, which in protobuf is UTF-8, unless it is empty.
func appendText(dst []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return dst
	}
	dst = protowire.AppendTag(dst, field, protowire.BytesType)
	return protowire.AppendString(dst, strings.ToValidUTF8(s, "\ufffd"))
}

// rejected is how many spans an ExportTraceServiceResponse says were not taken. What cannot be read
// says nothing.
func rejected(response []byte) int64 {
	partial, _ := find(response, 1)
	_, n := find(partial, 1)
	return int64(n)
}

// find returns the last value of a field: bytes, or a number.
func find(m []byte, field protowire.Number) (b []byte, n uint64) {
	for len(m) > 0 {
		number, kind, size := protowire.ConsumeTag(m)
		if size < 0 {
			return b, n
		}
		m = m[size:]
		if size = protowire.ConsumeFieldValue(number, kind, m); size < 0 {
			return b, n
		}
		if number == field {
			switch kind {
			case protowire.BytesType:
				b, _ = protowire.ConsumeBytes(m)
			case protowire.VarintType:
				n, _ = protowire.ConsumeVarint(m)
			}
		}
		m = m[size:]
	}
	return b, n
}
