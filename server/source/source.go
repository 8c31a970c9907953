// Package source brings models from where they are kept into a folder from which they are served:
// from OCI registries, and from stores that speak Amazon's S3.
//
// Meet first: [Parse], which reads an address, and [Mirror], a folder that is kept as the places
// behind such addresses are.
//
// Concurrency: a Mirror brings a model once at a time, and different ones side by side; a [Remote]
// may be used by any number of goroutines. Files that a model is served from are never written:
// a model that has changed is brought into a new folder, which takes the place of the old one.
//
// What it refuses: names of files that would lie outside of the model's folder; content that is
// not what its digest or its length says, of which nothing is kept; layers that are archives; and
// connections that a registry or a store asks for to places nearer to this machine than it is
// itself (see [Reach]): a registry on the internet has no business on this network.
package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// The errors of this package.
var (
	ErrAddress = errors.New("no address of models")
	ErrContent = errors.New("what came is not what was announced")
	ErrLayout  = errors.New("it is not laid out as a model")
	ErrSome    = errors.New("some models do not come")
	ErrReach   = errors.New("it is nearer to this machine than what was asked")
	ErrTaken   = errors.New("another weir keeps its models there")
)

// File is a file of a model that lies elsewhere.
type File struct {
	Path string // in the model's folder, with slashes: "1/model.onnx"
	Size int64  // in bytes
	// Mark is equal for equal content: a digest, or what the store has in its place.
	Mark string
	key  string // what the remote finds it by
	tag  string // of the very content, "" where there is none that a request may name
}

// Remote is a place that has models.
type Remote interface {
	// String returns its address as it was given.
	String() string
	// Names returns the names of the models there, ascending.
	Names(context.Context) ([]string, error)
	// Files returns what there is of a model. The error is of kind fs.ErrNotExist where there is
	// none of that name, [ErrLayout], or one of the connection.
	Files(ctx context.Context, model string) ([]File, error)
	// Open reads a file, which the caller closes. Its end is an error of kind [ErrContent] where
	// the content is not what Files announced.
	Open(context.Context, *File) (io.ReadCloser, error)
}

// Remotes reports whether an address is one of [Parse], and not the path of a folder.
func Remotes(address string) bool { return strings.Contains(address, "://") }

// Parse reads an address: oci://HOST[:PORT]/REPOSITORY[:TAG|@DIGEST], or s3://BUCKET[/PREFIX].
// env is os.Getenv, or a test's. Nothing is connected to. The error is of kind [ErrAddress].
func Parse(address string, env func(string) string) (Remote, error) {
	scheme, rest, _ := strings.Cut(address, "://")
	switch scheme {
	case "oci":
		return parseOCI(address, rest)
	case "s3":
		return parseS3(address, rest, env)
	}
	return nil, fmt.Errorf("%w: %.200q: give oci://HOST/REPOSITORY[:TAG], s3://BUCKET[/PREFIX] or "+
		"a folder", ErrAddress, address)
}

// Most are bounds of what one model may be, which keep a listing from filling memory.
const (
	mostFiles  = 10_000
	mostModels = 10_000
	mostPages  = 1_000 // of one list
)

// local reports whether a path may be that of a file in a model's folder. Names that begin with a
// point are those of the mirror, and of folders that are being made.
func local(path string) bool {
	if path == "" || len(path) > 1024 || strings.ContainsAny(path, "\\\x00:") ||
		!filepath.IsLocal(path) || filepath.ToSlash(filepath.Clean(path)) != path {
		return false
	}
	for part := range strings.SplitSeq(path, "/") {
		if part[0] == '.' {
			return false
		}
	}
	return true
}

// sized is a body whose length is known.
type sized struct {
	io.ReadCloser
	what string
	left int64
}

// Read implements io.Reader.
func (s *sized) Read(p []byte) (int, error) {
	if int64(len(p)) > s.left+1 {
		p = p[:s.left+1] // one more shows that there is more
	}
	n, err := s.ReadCloser.Read(p)
	s.left -= int64(n)
	switch {
	case s.left < 0:
		return n, fmt.Errorf("%s: %w: it is longer", s.what, ErrContent)
	case err == io.EOF && s.left > 0:
		return n, fmt.Errorf("%s: %w: %d bytes are missing", s.what, ErrContent, s.left)
	}
	return n, err
}
