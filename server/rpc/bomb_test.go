package rpc

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/binary"
	"io"
	"runtime"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirgpu/weir/server"
)

// packed is a message that is compressed, as it is sent.
func packed(t *testing.T, encoding string, plain []byte) []byte {
	t.Helper()
	b := bytes.NewBuffer(make([]byte, 5))
	var w io.WriteCloser = gzip.NewWriter(b)
	if encoding == "deflate" {
		w = zlib.NewWriter(b)
	}
	_, err := w.Write(plain)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	m := b.Bytes()
	m[0] = 1
	binary.BigEndian.PutUint32(m[1:], uint32(len(m)-5))
	return m
}

// inflated is a message with a name of so many bytes, which become few.
func inflated(n int) []byte {
	return append(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.BytesType),
		uint64(n)), make([]byte, n)...)
}

// TestBombs: a message that is a thousand times as long in plain is refused as one that is sent so,
// has no more memory than that may have, and ends its call alone.
func TestBombs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 4 << 20
		w := begin(t, server.Options{Body: most}, identity)
		bomb := inflated(16 * most)
		for _, encoding := range []string{"gzip", "deflate"} {
			r, id := w.raw(t), uint32(1)
			ask := func(method string, m []byte) codes.Code {
				r.call(t, id, method, hpack.HeaderField{Name: "grpc-encoding", Value: encoding})
				for len(m) > 0 {
					n := min(len(m), 16_000)
					r.send(t, id, n == len(m), m[:n])
					m = m[n:]
				}
				id += 2
				return <-r.ended
			}
			m := packed(t, encoding, bomb)
			if len(m)*900 > len(bomb) {
				t.Fatalf("%s: a bomb of %d bytes", encoding, len(m))
			}
			for _, method := range []string{"ModelInfer", "ModelStreamInfer", "ModelReady",
				"RepositoryModelLoad"} {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				if got := ask(method, m); got != codes.ResourceExhausted {
					t.Errorf("%s, a bomb by %s: %v", method, encoding, got)
				}
				runtime.ReadMemStats(&after)
				if took := after.TotalAlloc - before.TotalAlloc; took > 3*most {
					t.Errorf("%s, a bomb by %s: %d bytes of memory", method, encoding, took)
				}
			}
			// no more than tensors may have, and for a method that takes none
			got := ask("ModelReady", packed(t, encoding, inflated(2*small)))
			if got != codes.ResourceExhausted {
				t.Errorf("a long message of a small method by %s: %v", encoding, got)
			}
			got = ask("ModelReady", packed(t, encoding, inflated(small/2)))
			if got != codes.OK {
				t.Errorf("a message that is as long as may be by %s: %v", encoding, got)
			}
			synctest.Wait()
			w.nothing(t)
		}
	})
}
