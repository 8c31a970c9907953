package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/weirgpu/weir/server/oip"
	pb "github.com/weirgpu/weir/server/oip/inferencepb"
)

// service is that of the protocol's calls.
const service = "/inference.GRPCInferenceService/"

// window is how many bytes of answers may be under way: as many as HTTP/2 allows.
const window = 1<<31 - 1

// CallError is what a server answered over gRPC in place of what was asked.
type CallError struct {
	Code codes.Code
	Text string // what the server says
}

// Error implements error.
func (e *CallError) Error() string { return fmt.Sprintf("%v: %s", e.Code, e.Text) }

// Calls is a connection over which a server is asked by gRPC, by many at a time. It needs Close.
// Every error ends it but a [CallError] and that of a context.
//
// It is small in place of gRPC's own client, which adds more to a program than the rest of this
// package and takes more time for a call than a server does.
type Calls struct {
	conn  net.Conn
	token string
	at    *url.URL

	writing sync.Mutex // frames, and the order of streams
	out     *bufio.Writer
	framer  *http2.Framer // reads alone are outside of the mutex
	block   bytes.Buffer
	headers *hpack.Encoder
	next    uint32

	mu      sync.Mutex
	calls   map[uint32]*call
	window  int64         // bytes that may be sent
	initial int64         // those of a stream when it begins
	frame   int           // bytes that one may have
	moved   chan struct{} // closed once more may be sent
	leaving error         // why no more calls are taken
	err     error         // why the connection has ended

	replies chan func() error // frames that the reader owes
	ended   chan struct{}     // closed with the connection
}

// call is a call under way. Its fields are under the mutex of its connection.
type call struct {
	id     uint32
	due    time.Time // zero: it has no deadline
	window int64
	answer []byte // with gRPC's prefix
	keep   bool
	read   int64
	err    error
	done   chan struct{}
}

// PreparedCall is a request that is ready to be sent over gRPC.
type PreparedCall struct{ message []byte }

// PrepareCall makes a request for a version of a model, as [Prepare] does.
func PrepareCall(model, version string, r *oip.Request) (*PreparedCall, error) {
	m := &pb.ModelInferRequest{ModelName: model, ModelVersion: version, Id: r.ID,
		Parameters: map[string]*pb.InferParameter{}}
	for name, v := range r.Parameters {
		p := &pb.InferParameter{}
		switch v := v.(type) {
		case int64:
			p.ParameterChoice = &pb.InferParameter_Int64Param{Int64Param: v}
		case bool:
			p.ParameterChoice = &pb.InferParameter_BoolParam{BoolParam: v}
		case string:
			p.ParameterChoice = &pb.InferParameter_StringParam{StringParam: v}
		default:
			return nil, fmt.Errorf("%w: parameter %.40q is a %T", oip.ErrRequest, name, v)
		}
		m.Parameters[name] = p
	}
	for _, in := range r.Inputs {
		datatype, ok := oip.Datatype(in.Tensor.DType)
		if !ok {
			return nil, fmt.Errorf("%w: input %s is of type %v", oip.ErrRequest, in.Name,
				in.Tensor.DType)
		}
		t := &pb.ModelInferRequest_InferInputTensor{Name: in.Name, Datatype: datatype}
		for _, n := range in.Tensor.Shape {
			t.Shape = append(t.Shape, int64(n))
		}
		m.Inputs = append(m.Inputs, t)
		if g := in.Region; g != nil {
			t.Parameters = regionOf(g)
			continue
		}
		m.RawInputContents = append(m.RawInputContents, oip.AppendBytes(nil, in.Tensor))
	}
	b, err := framed(m)
	return &PreparedCall{b}, err
}

// regionOf are the parameters of an input that is in shared memory (Triton,
// extension_shared_memory.md).
func regionOf(g *oip.Region) map[string]*pb.InferParameter {
	number := func(n int64) *pb.InferParameter {
		return &pb.InferParameter{ParameterChoice: &pb.InferParameter_Int64Param{Int64Param: n}}
	}
	return map[string]*pb.InferParameter{
		"shared_memory_region": {ParameterChoice: &pb.InferParameter_StringParam{
			StringParam: g.Name}},
		"shared_memory_byte_size": number(g.Size),
		"shared_memory_offset":    number(g.Offset),
	}
}

// framed is a message with gRPC's prefix: not compressed, and its length.
func framed(m proto.Message) ([]byte, error) {
	b, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, 5), m)
	if err == nil {
		binary.BigEndian.PutUint32(b[1:], uint32(len(b)-5))
	}
	return b, err
}

// Dial connects to the server of a URL http or https, with o for the latter. A token of "" is not
// sent.
func Dial(ctx context.Context, to, token string, o *tls.Config) (*Calls, error) {
	at, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	var conn net.Conn
	if at.Scheme == "https" {
		o = o.Clone()
		if o == nil {
			o = &tls.Config{}
		}
		o.NextProtos = []string{http2.NextProtoTLS}
		conn, err = (&tls.Dialer{Config: o}).DialContext(ctx, "tcp", at.Host)
	} else {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", at.Host)
	}
	if err != nil {
		return nil, err
	}
	return newCalls(conn, at, token)
}

func newCalls(conn net.Conn, at *url.URL, token string) (*Calls, error) {
	c := &Calls{conn: conn, at: at, token: token, out: bufio.NewWriterSize(conn, 64<<10), next: 1,
		calls: map[uint32]*call{}, window: 65535, initial: 65535, frame: 16 << 10,
		moved: make(chan struct{}), replies: make(chan func() error, 64),
		ended: make(chan struct{})}
	c.framer = http2.NewFramer(c.out, bufio.NewReaderSize(conn, 64<<10))
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.framer.MaxHeaderListSize = 64 << 10
	c.framer.SetMaxReadFrameSize(1 << 20)
	c.framer.SetReuseFrames()
	c.headers = hpack.NewEncoder(&c.block)
	go c.read()
	// Replies to what the server says follow the preface, which must come first (RFC 9113, 3.4).
	err := c.write(func() error {
		_, _ = c.out.WriteString(http2.ClientPreface)
		return errors.Join(c.framer.WriteSettings(
			http2.Setting{ID: http2.SettingInitialWindowSize, Val: window},
			http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 20},
			http2.Setting{ID: http2.SettingEnablePush, Val: 0}),
			c.framer.WriteWindowUpdate(0, window-65535))
	})
	if err != nil {
		c.Close()
		return nil, err
	}
	go c.reply()
	return c, nil
}

// Close ends the connection and the calls that are under way.
func (c *Calls) Close() { c.fail(net.ErrClosed) }

// fail ends the connection.
func (c *Calls) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hangUp(err)
}

// hangUp is fail with c.mu held.
func (c *Calls) hangUp(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	close(c.ended)
	_ = c.conn.Close()
	for _, k := range c.calls {
		c.finish(k, err)
	}
}

// finish ends a call; c.mu is held.
func (c *Calls) finish(k *call, err error) {
	if c.calls[k.id] == k {
		delete(c.calls, k.id)
		k.err = err
		close(k.done)
	}
	c.leave()
}

// leave ends the connection of a server that takes no more calls, once none is under way: the
// server waits for that. c.mu is held.
func (c *Calls) leave() {
	if c.leaving != nil && len(c.calls) == 0 {
		c.hangUp(c.leaving)
	}
}

// write has f write frames, and sends them.
func (c *Calls) write(f func() error) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	err := f()
	if flushed := c.out.Flush(); err == nil {
		err = flushed
	}
	return err
}

// reply writes what the reader owes: it must not wait for what is being written, or both sides
// might wait for each other to read.
func (c *Calls) reply() {
	for {
		select {
		case f := <-c.replies:
			if err := c.write(f); err != nil {
				c.fail(err)
				return
			}
		case <-c.ended:
			return
		}
	}
}

// Send sends a request, and reads and leaves the answer. The context's deadline is sent too. The
// error is a [CallError] where the server has answered with one.
func (c *Calls) Send(ctx context.Context, p *PreparedCall) error {
	_, err := c.invoke(ctx, "ModelInfer", p.message, false)
	return err
}

// Metadata asks what a version of a model takes and gives; an empty version stands for the one that
// is served.
func (c *Calls) Metadata(ctx context.Context, model, version string) (m oip.Metadata, err error) {
	asked, err := framed(&pb.ModelMetadataRequest{Name: model, Version: version})
	if err != nil {
		return m, err
	}
	b, err := c.invoke(ctx, "ModelMetadata", asked, true)
	if err != nil {
		return m, err
	}
	a := &pb.ModelMetadataResponse{}
	if err := unframed(b, a); err != nil {
		return m, err
	}
	m = oip.Metadata{Name: a.Name, Versions: a.Versions, Platform: a.Platform}
	for _, t := range a.Inputs {
		m.Inputs = append(m.Inputs, oip.TensorFields{Name: t.Name, Datatype: t.Datatype,
			Shape: t.Shape})
	}
	for _, t := range a.Outputs {
		m.Outputs = append(m.Outputs, oip.TensorFields{Name: t.Name, Datatype: t.Datatype,
			Shape: t.Shape})
	}
	return m, nil
}

// Index lists the models of the server.
func (c *Calls) Index(ctx context.Context) (list []oip.IndexEntry, err error) {
	asked, err := framed(&pb.RepositoryIndexRequest{Ready: true})
	if err != nil {
		return nil, err
	}
	b, err := c.invoke(ctx, "RepositoryIndex", asked, true)
	if err != nil {
		return nil, err
	}
	a := &pb.RepositoryIndexResponse{}
	if err := unframed(b, a); err != nil {
		return nil, err
	}
	for _, m := range a.Models {
		list = append(list, oip.IndexEntry{Name: m.Name, Version: m.Version, State: m.State})
	}
	return list, nil
}

// unframed reads a message behind its prefix.
func unframed(b []byte, m proto.Message) error {
	if len(b) < 5 || b[0] != 0 || uint64(len(b)-5) != uint64(binary.BigEndian.Uint32(b[1:])) {
		return fmt.Errorf("%w: a message of %d bytes is not whole", oip.ErrAnswer, len(b))
	}
	if err := proto.Unmarshal(b[5:], m); err != nil {
		return fmt.Errorf("%w: %w", oip.ErrAnswer, err)
	}
	return nil
}

// invoke makes a call of one message, with its prefix, and returns that of the answer if it is to
// be kept.
func (c *Calls) invoke(ctx context.Context, method string, message []byte,
	keep bool) ([]byte, error) {
	k := &call{keep: keep, done: make(chan struct{})}
	k.due, _ = ctx.Deadline()
	if err := c.open(k, method); err != nil {
		return nil, err
	}
	if err := c.send(ctx, k, message); err != nil {
		return nil, err
	}
	select {
	case <-k.done:
		return k.answer, k.err
	case <-ctx.Done():
		return nil, c.cancel(ctx, k)
	}
}

// cancel ends a call that is waited for no more.
func (c *Calls) cancel(ctx context.Context, k *call) error {
	c.mu.Lock()
	c.finish(k, ctx.Err())
	c.mu.Unlock()
	_ = c.write(func() error { return c.framer.WriteRSTStream(k.id, http2.ErrCodeCancel) })
	return ctx.Err()
}

// open begins a call.
func (c *Calls) open(k *call, method string) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.block.Reset()
	for _, f := range [...][2]string{{":method", "POST"}, {":scheme", c.at.Scheme},
		{":path", service + method}, {":authority", c.at.Host},
		{"content-type", "application/grpc"}, {"te", "trailers"}} {
		_ = c.headers.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	if c.token != "" {
		_ = c.headers.WriteField(hpack.HeaderField{Name: "authorization",
			Value: "Bearer " + c.token, Sensitive: true})
	}
	if !k.due.IsZero() {
		// its units have eight digits at most (gRPC, PROTOCOL-HTTP2.md); the server's time is not
		// over before that of the client
		left := max(time.Until(k.due), 1)
		value := strconv.FormatInt((left+time.Microsecond-1).Microseconds(), 10) + "u"
		if left > time.Minute {
			value = strconv.FormatInt(min((left+time.Millisecond-1).Milliseconds(), 99_999_999),
				10) + "m"
		}
		_ = c.headers.WriteField(hpack.HeaderField{Name: "grpc-timeout", Value: value,
			Sensitive: true}) // not to be kept by the encoder
	}
	c.mu.Lock()
	if err := cmp.Or(c.err, c.leaving); err != nil {
		c.mu.Unlock()
		return err
	}
	k.id, k.window = c.next, c.initial
	c.next += 2
	c.calls[k.id] = k
	c.mu.Unlock()
	return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: k.id, EndHeaders: true,
		BlockFragment: c.block.Bytes()})
}

// send sends a call's message as the server has room for it.
func (c *Calls) send(ctx context.Context, k *call, message []byte) error {
	for {
		n, moved := c.room(k, len(message))
		if n == 0 && len(message) > 0 {
			if err := c.write(func() error { return nil }); err != nil {
				return err
			}
			select {
			case <-moved:
				continue
			case <-k.done: // answered already
				return nil
			case <-ctx.Done():
				return c.cancel(ctx, k)
			}
		}
		last := n == len(message)
		err := c.write(func() error { return c.framer.WriteData(k.id, last, message[:n]) })
		if err != nil || last {
			return err
		}
		message = message[n:]
	}
}

// room takes room for at most n bytes; moved is closed once there may be more.
func (c *Calls) room(k *call, n int) (taken int, moved <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken = int(max(0, min(int64(n), int64(c.frame), c.window, k.window)))
	c.window -= int64(taken)
	k.window -= int64(taken)
	return taken, c.moved
}
