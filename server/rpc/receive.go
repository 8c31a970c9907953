package rpc

import (
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip" // which clients may send
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/weirgpu/weir/server/oip"
)

// received is a message in the transport's buffers. It needs free.
type received struct {
	data mem.BufferSlice
	call *call
	held int64 // bytes of the server's for bodies
}

// receive reads the next message. The error is gRPC's, or io.EOF after the last of a stream.
func receive(stream grpc.ServerStream, k *call) (*received, error) {
	s := k.conn.of
	packed := false
	if c, ok := grpc.ServerTransportStreamFromContext(stream.Context()).(interface {
		RecvCompress() string
	}); ok {
		packed = c.RecvCompress() != "" && c.RecvCompress() != encoding.Identity
	}
	if packed { // what it will have in plain is not known, and bounded by the transport
		if err := s.o.Server.Hold(s.body); err != nil {
			return nil, err
		}
		defer s.o.Server.Release(s.body)
	}
	r := &received{call: k}
	if err := stream.RecvMsg(r); err != nil {
		return nil, err
	}
	plain := int64(0)
	if packed {
		plain = int64(r.data.Len())
		s.o.Server.Take(plain)
	}
	r.held = k.took(plain)
	if plain > k.limit { // of what was sent the call knows
		defer r.free()
		return nil, oip.Faultf(oip.TooLarge, "the message has %d bytes in plain, and at most %d "+
			"are taken", plain, k.limit)
	}
	return r, nil
}

// Hold takes so many bytes more of those that the server has for bodies, as oip.Holder has it.
func (r *received) Hold(more int64) error {
	if err := r.call.conn.of.o.Server.Hold(more); err != nil {
		return err
	}
	r.held += more
	r.call.conn.mu.Lock()
	defer r.call.conn.mu.Unlock()
	r.call.held += more
	return nil
}

// free gives the message's memory back.
func (r *received) free() {
	r.data.Free()
	r.data = nil
	r.call.done(r.held)
}

// pieces are the parts of memory that the message lies in.
func (r *received) pieces() [][]byte {
	all := make([][]byte, 0, len(r.data))
	for _, b := range r.data {
		all = append(all, b.ReadOnlyData())
	}
	return all
}

// into reads the message into m, which is not one of an inference.
func (r *received) into(m proto.Message) error {
	b := r.data.Materialize()
	n := 0
	for rest := b; len(rest) > 0; n++ {
		_, _, size := protowire.ConsumeField(rest)
		if size < 0 || n == oip.MaxValues {
			return fmt.Errorf("%w: the message cannot be read, or has more than %d fields",
				oip.ErrRequest, oip.MaxValues)
		}
		rest = rest[size:]
	}
	if err := proto.Unmarshal(b, m); err != nil {
		return fmt.Errorf("%w: %w", oip.ErrRequest, err)
	}
	return nil
}
