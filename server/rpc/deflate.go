package rpc

import (
	"compress/zlib"
	"io"

	"google.golang.org/grpc/encoding"
)

// deflate is the compression that gRPC calls so (its "Compression" page): zlib's form. grpc-go has
// gzip only, and tritonclient sends either.
type deflate struct{}

func init() { encoding.RegisterCompressor(deflate{}) }

// Name implements encoding.Compressor.
func (deflate) Name() string { return "deflate" }

// Compress implements encoding.Compressor.
func (deflate) Compress(w io.Writer) (io.WriteCloser, error) { return zlib.NewWriter(w), nil }

// Decompress implements encoding.Compressor.
func (deflate) Decompress(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) }
