package rpc

import (
	"fmt"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// codec passes messages between the transport and who reads or writes them: what lies in buffers is
// left there.
type codec struct{}

// Name implements encoding.CodecV2.
func (codec) Name() string { return "proto" }

// Unmarshal implements encoding.CodecV2.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch v := v.(type) {
	case *received:
		data.Ref()
		v.data = data
		return nil
	case proto.Message:
		return proto.Unmarshal(data.Materialize(), v)
	}
	return fmt.Errorf("%T is no message", v)
}

// Marshal implements encoding.CodecV2.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	switch v := v.(type) {
	case *answer:
		return v.steps(), nil
	case encoded:
		return mem.BufferSlice{mem.SliceBuffer(v)}, nil
	case proto.Message:
		b, err := proto.Marshal(v)
		return mem.BufferSlice{mem.SliceBuffer(b)}, err
	}
	return nil, fmt.Errorf("%T is no message", v)
}

// answer is a message in a buffer of the pool, which is sent in steps, so that it is known how much
// of it the client has taken. It is the pool to which gRPC gives each step back.
type answer struct {
	conn  *conn
	whole *[]byte

	// under conn.mu
	began, last time.Time // when it was given to the transport, and when a step was sent
	sent, held  int64     // bytes
}

// newAnswer returns an answer with room for n bytes and none in it.
func newAnswer(c *conn, n int) *answer {
	a := &answer{conn: c, whole: mem.DefaultBufferPool().Get(n)}
	a.held = int64(cap(*a.whole))
	c.of.o.Server.Take(a.held)
	*a.whole = (*a.whole)[:0]
	return a
}

// drop gives back an answer that will not be sent.
func (a *answer) drop() {
	a.conn.of.o.Server.Release(a.held)
	mem.DefaultBufferPool().Put(a.whole)
}

// steps gives the answer to the transport.
func (a *answer) steps() mem.BufferSlice {
	b := *a.whole
	c := a.conn
	if mem.IsBelowBufferPoolingThreshold(cap(b)) { // gRPC does not say of such when they were sent
		c.of.o.Server.Release(a.held)
		return mem.BufferSlice{mem.SliceBuffer(b)}
	}
	now := time.Now()
	a.began, a.last = now, now
	c.mu.Lock()
	var held int64
	if c.closed {
		held, a.held = a.held, 0
	} else {
		c.sends[a] = struct{}{}
		c.look()
	}
	c.mu.Unlock()
	c.of.o.Server.Release(held)
	var all mem.BufferSlice
	for len(b) > step+step/2 { // the last is not so short that it is not pooled
		first := b[:step]
		all, b = append(all, mem.NewBuffer(&first, a)), b[step:]
	}
	return append(all, mem.NewBuffer(&b, a))
}

// Get implements mem.BufferPool, for which nobody asks an answer.
func (a *answer) Get(n int) *[]byte { return mem.DefaultBufferPool().Get(n) }

// Put implements mem.BufferPool: a step was sent, or will not be.
func (a *answer) Put(b *[]byte) {
	c := a.conn
	c.mu.Lock()
	a.sent += int64(len(*b))
	a.last = time.Now()
	var held int64
	done := a.sent == int64(len(*a.whole))
	if done {
		held, a.held = a.held, 0
		delete(c.sends, a)
	}
	c.mu.Unlock()
	if done {
		c.of.o.Server.Release(held)
		mem.DefaultBufferPool().Put(a.whole)
	}
}
