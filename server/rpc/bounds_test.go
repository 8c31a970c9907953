package rpc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/weirgpu/weir/server"
	pb "github.com/weirgpu/weir/server/oip/inferencepb"
)

// raw is a client that sends frames as it likes, and never says that it has read what came.
type raw struct {
	net.Conn
	frames *http2.Framer
	head   bytes.Buffer
	codec  *hpack.Encoder
	ended  chan codes.Code // of streams, as they end; closed with the connection
	data   atomic.Int64    // bytes of answers that came
}

func (w *world) raw(t *testing.T) *raw {
	t.Helper()
	r := &raw{Conn: w.pipe(), ended: make(chan codes.Code, 99)}
	r.frames = http2.NewFramer(r.Conn, r.Conn)
	r.frames.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	r.codec = hpack.NewEncoder(&r.head)
	go r.read()
	if _, err := io.WriteString(r.Conn, preface); err != nil {
		t.Fatal(err)
	}
	if err := r.frames.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Conn.Close() })
	return r
}

// read reads what comes, until the connection ends.
func (r *raw) read() {
	defer close(r.ended)
	for {
		f, err := r.frames.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.DataFrame:
			r.data.Add(int64(len(f.Data())))
		case *http2.MetaHeadersFrame:
			for _, h := range f.Fields {
				if h.Name == "grpc-status" {
					n := codes.Unknown
					_ = n.UnmarshalJSON([]byte(h.Value))
					r.ended <- n
				}
			}
		}
	}
}

// call opens a call, with more headers than all have.
func (r *raw) call(t *testing.T, stream uint32, method string, more ...hpack.HeaderField) {
	t.Helper()
	r.head.Reset()
	for _, h := range append([]hpack.HeaderField{{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"}, {Name: ":path", Value: prefix + method},
		{Name: ":authority", Value: "localhost"}, {Name: "te", Value: "trailers"},
		{Name: "content-type", Value: "application/grpc"}}, more...) {
		if err := r.codec.WriteField(h); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: stream,
		BlockFragment: r.head.Bytes(), EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
}

// framed is a message as it is sent.
func framed(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...)
}

// send sends a part of a call's messages.
func (r *raw) send(t *testing.T, stream uint32, end bool, b []byte) {
	t.Helper()
	if err := r.frames.WriteDataPadded(stream, end, b, make([]byte, 7)); err != nil {
		t.Fatal(err)
	}
}

// nothing holds that no memory is held for bodies.
func (w *world) nothing(t *testing.T) {
	t.Helper()
	_, bodies := w.models.Limits()
	if err := w.models.Hold(bodies); err != nil {
		t.Error(err)
		return
	}
	w.models.Release(bodies)
}

// TestSlowMessages: a message that does not come ends its call, and no other of its connection; a
// stream may wait as long as it likes between messages. Time is virtual.
func TestSlowMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, server.Options{}, identity)
		r := w.raw(t)
		m := framed(t, request[uint8]("identity", 1, 2, 3))
		r.call(t, 1, "ModelStreamInfer")
		r.call(t, 3, "ModelInfer")
		r.call(t, 5, "ModelInfer")
		r.send(t, 5, false, m[:len(m)-1])
		r.call(t, 7, "ModelInfer")
		r.send(t, 7, true, m)
		synctest.Wait()
		if got := <-r.ended; got != codes.OK {
			t.Errorf("a whole message beside others: %v", got)
		}
		began := time.Now()
		for range 2 {
			if got := <-r.ended; got != codes.DeadlineExceeded {
				t.Errorf("a message that does not come: %v", got)
			}
		}
		if took := time.Since(began); took < patience || took > patience+2*interval {
			t.Errorf("they ended after %v", took)
		}
		time.Sleep(time.Minute)
		r.send(t, 1, true, m)
		if got := <-r.ended; got != codes.OK {
			t.Errorf("a stream after a minute without messages: %v", got)
		}
		synctest.Wait()
		w.nothing(t)
	})
}

// TestDrip: a message that comes on but too slowly for its size ends too.
func TestDrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, server.Options{}, identity)
		r := w.raw(t)
		m := framed(t, request("identity", make([]uint8, 1<<20)...))
		r.call(t, 1, "ModelInfer")
		began := time.Now()
		for i := range m {
			r.send(t, 1, false, m[i:i+1])
			time.Sleep(time.Second)
			select {
			case got := <-r.ended:
				took := time.Since(began)
				if got != codes.DeadlineExceeded || took > patience+3*interval {
					t.Errorf("%v after %v", got, took)
				}
				return
			default:
			}
			if time.Since(began) > time.Minute {
				t.Fatal("a byte a second goes on for a minute")
			}
		}
	})
}

// TestSlowReaders: a client that does not take its answer loses its connection, and its memory is
// given back.
func TestSlowReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, server.Options{}, identity)
		r := w.raw(t)
		m := framed(t, request("identity", make([]uint8, 200_000)...))
		r.call(t, 1, "ModelInfer")
		for len(m) > 0 {
			n := min(len(m), 16_000)
			r.send(t, 1, n == len(m), m[:n])
			m = m[n:]
		}
		began := time.Now()
		for range r.ended {
			t.Error("an answer that was not taken has a status")
		}
		if took := time.Since(began); took < patience || took > patience+2*interval ||
			r.data.Load() != 65535 {
			t.Errorf("%d bytes after %v", r.data.Load(), took)
		}
		synctest.Wait()
		w.nothing(t)
	})
}

// TestHeld: messages have bounded memory, which grows with what came and not with what was
// announced, and is given back.
func TestHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, server.Options{Bodies: 100_000, Body: 1 << 20}, identity)
		r := w.raw(t)
		m := framed(t, request("identity", make([]uint8, 200_000)...))
		small := framed(t, request[uint8]("identity", 1))
		for i := range uint32(9) {
			r.call(t, 4*i+1, "ModelInfer")
			for at := 0; at < 112_000; at += 16_000 {
				r.send(t, 4*i+1, false, m[at:at+16_000])
			}
			if got := <-r.ended; got != codes.Unavailable {
				t.Fatalf("beyond the bound: %v", got)
			}
			r.call(t, 4*i+3, "ModelInfer")
			r.send(t, 4*i+3, true, small)
			if got := <-r.ended; got != codes.OK {
				t.Fatalf("a small one after it: %v", got)
			}
			synctest.Wait()
			w.nothing(t)
		}
		r.call(t, 101, "ModelInfer")
		r.send(t, 101, false, []byte{0, 0x7f, 0xff, 0xff, 0xff})
		if got := <-r.ended; got != codes.ResourceExhausted {
			t.Errorf("a message of 2 GiB, announced: %v", got)
		}
		r.call(t, 103, "ModelReady")
		r.send(t, 103, false, binary.BigEndian.AppendUint32([]byte{0}, small32+1))
		if got := <-r.ended; got != codes.ResourceExhausted {
			t.Errorf("a large message of a small method: %v", got)
		}
	})
}

const small32 = uint32(small)

// TestHeldInPlain: what a message has in memory beside its bytes counts with them, and is given
// back.
func TestHeldInPlain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, server.Options{Bodies: 100_000}, identity)
		r := w.raw(t)
		m := &pb.ModelInferRequest{ModelName: "identity",
			Inputs: []*pb.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: "BYTES",
				Shape: []int64{7000}, Contents: &pb.InferTensorContents{
					BytesContents: make([][]byte, 7000)}}}}
		for i := range uint32(2) {
			r.call(t, 2*i+1, "ModelInfer")
			r.send(t, 2*i+1, true, framed(t, m))
			if got := <-r.ended; got != codes.Unavailable {
				t.Errorf("14 kB that are 112 kB in memory, of 100 kB: %v", got)
			}
			synctest.Wait()
			w.nothing(t)
		}
	})
}

// TestHeldOfNoHandler: what came of a call whose handler never begins, since the transport does not
// know how its messages are packed, is given back: while the connection goes on, and with its end.
func TestHeldOfNoHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, server.Options{}, identity)
		for _, stays := range []time.Duration{3 * interval, 0} {
			r := w.raw(t)
			r.call(t, 1, "ModelInfer", hpack.HeaderField{Name: "grpc-encoding", Value: "tar"})
			r.send(t, 1, false, []byte{0, 0, 1, 0, 0})
			if got := <-r.ended; got != codes.Unimplemented {
				t.Errorf("a message of which nobody knows how it is packed: %v", got)
			}
			r.send(t, 1, false, make([]byte, 10_000))
			time.Sleep(stays)
			if stays > 0 {
				w.nothing(t)
			}
			_ = r.Conn.Close()
			time.Sleep(3 * interval)
			w.nothing(t)
		}
	})
}

// TestFields: a message with more fields than any has is refused before there is memory for them.
func TestFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, server.Options{}, identity)
		r := w.raw(t)
		for i, f := range []struct {
			method string
			b      []byte
		}{{"ModelReady", bytes.Repeat([]byte{0x0a, 0}, 5000)}, {"ModelReady", []byte{0xff}},
			{"ModelInfer", bytes.Repeat([]byte{0x2a, 0}, 5000)}} {
			id := uint32(2*i + 1)
			r.call(t, id, f.method)
			b := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(f.b))), f.b...)
			r.send(t, id, true, b)
			if got := <-r.ended; got != codes.InvalidArgument {
				t.Errorf("%s: %v", f.method, got)
			}
		}
	})
}

// TestConnections: there are no more connections than may be.
func TestConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, server.Options{}, identity)
		w.conns.Store(MaxConnections - 1)
		first := w.raw(t)
		synctest.Wait()
		c := w.pipe()
		if _, err := io.ReadAll(c); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
		_ = first.Conn.Close()
		synctest.Wait()
		next := w.raw(t)
		next.call(t, 1, "ServerLive")
		next.send(t, 1, true, make([]byte, 5))
		if got := <-next.ended; got != codes.OK {
			t.Errorf("after a connection has ended: %v", got)
		}
	})
}

// FuzzFrames: however what a client sends is cut into pieces, the same is passed on, and the calls
// have the same bytes counted.
func FuzzFrames(f *testing.F) {
	var b bytes.Buffer
	_, _ = b.WriteString(preface)
	fr := http2.NewFramer(&b, nil)
	_ = fr.WriteSettings()
	_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}})
	_ = fr.WriteContinuation(1, true, []byte{0x82})
	_ = fr.WriteDataPadded(1, false, framed(f, &pb.ModelReadyRequest{Name: "x"}), make([]byte, 3))
	_ = fr.WriteDataPadded(1, true, framed(f, &pb.ModelReadyRequest{Name: "y"}), nil)
	f.Add(b.Bytes(), uint8(3))
	models, err := server.New(server.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = models.Close() })
	follow := func(b []byte, cut int) (*call, uint32, []byte) {
		k := &call{limit: 1 << 20}
		c := &conn{of: &Server{o: Options{Server: models}}, calls: map[uint32]*call{1: k},
			frames: frames{skip: len(preface)}}
		k.conn = c
		var passed []byte
		for len(b) > 0 {
			piece := b[:min(cut, len(b))]
			b = b[len(piece):]
			for len(piece) > 0 {
				n := c.frames.scan(c, piece)
				if n == 0 {
					panic("nothing is passed on")
				}
				passed, piece = append(passed, piece[:n]...), piece[n:]
			}
		}
		models.Release(k.held)
		return k, c.frames.opened, passed
	}
	f.Fuzz(func(t *testing.T, b []byte, cut uint8) {
		a, opened, passed := follow(b, len(b)+1)
		p, again, pieces := follow(b, int(cut)+1)
		if !bytes.Equal(passed, b) || !bytes.Equal(pieces, b) || opened != again {
			t.Fatalf("%q passed on as %q and %q, opened %d and %d", b, passed, pieces, opened,
				again)
		}
		if (a.fault == nil) != (p.fault == nil) || a.fault == nil &&
			(a.held != p.held || a.left != p.left || len(a.whole) != len(p.whole)) {
			t.Fatalf("%q: %+v in one piece, %+v in several", b, a, p)
		}
	})
}
