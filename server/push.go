package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/repo"
	"github.com/weirgpu/weir/server/store"
)

// MostModel is how many bytes the file of a model may have that is pushed.
const MostModel = 64 << 30

// Pusher is a [Catalogue] that takes versions of models.
type Pusher interface {
	// Push puts a version there as repo.Push does.
	Push(name string, number int64, from io.Reader, digest []byte) (*repo.Pushed, error)
}

// Pushed is the answer to a version that was pushed.
type Pushed struct {
	Model   string `json:"model"`
	Version string `json:"version"`
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"`
}

// Push implements [Pusher].
func (f *Folder) Push(name string, number int64, from io.Reader, digest []byte) (*repo.Pushed,
	error) {
	if f.Bring != nil {
		return nil, oip.Faultf(oip.Unsupported, "the models of this server are brought from "+
			"elsewhere: put them there, and have them loaded")
	}
	return repo.Push(f.Path, name, number, from, MostModel, digest)
}

// modelRoutes are the endpoints that change models, beside Triton's.
func (s *Server) modelRoutes() {
	s.Handle("PUT /v1/models/{model}", s.answer(s.push))
	s.Handle("PUT /v1/models/{model}/{version}", s.answer(s.push))
	s.Handle("POST /v1/models/{model}/rollback", s.answer(s.rollback))
}

func (s *Server) rollback(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("model")
	if err := s.Rollback(r.Context(), name); err != nil {
		return err
	}
	m, err := s.Metadata(name, "")
	if err != nil {
		return err
	}
	write(w, http.StatusOK, Pushed{Model: name, Version: m.Versions[len(m.Versions)-1]})
	return nil
}

// push takes the file of a version. It is not served before somebody has the model loaded.
func (s *Server) push(w http.ResponseWriter, r *http.Request) error {
	to, ok := s.catalogue().(Pusher)
	if !ok {
		return oip.Faultf(oip.Unsupported, "this server has no folder of models: begin it with "+
			"--models")
	}
	var number int64
	if text := r.PathValue("version"); text != "" {
		var ok bool
		if number, ok = repo.Number(text); !ok {
			return oip.Faultf(oip.Invalid, "version %.40q: give a whole number from 1 on", text)
		}
	}
	digest, err := contentDigest(r.Header.Values("Content-Digest"))
	if err != nil {
		return err
	}
	from := &body{of: s, to: http.NewResponseController(w), began: time.Now(), from: r.Body}
	p, err := to.Push(r.PathValue("model"), number, from, digest)
	if err != nil {
		w.Header().Set("Connection", "close") // what is left of the body is not waited for
		return pushFault(err)
	}
	write(w, http.StatusCreated, Pushed{p.Version.Name, strconv.FormatInt(p.Version.Number, 10),
		p.Bytes, fmt.Sprintf("%x", p.SHA256)})
	return nil
}

// pushFault is what the client is told of an error of repo.Push.
func pushFault(err error) error {
	kind := oip.KindOf(err)
	switch {
	case errors.Is(err, store.ErrFull):
		return &httpError{http.StatusInsufficientStorage, text(err)}
	case errors.Is(err, fs.ErrExist):
		kind = oip.Exists
	case errors.Is(err, repo.ErrLarge):
		kind = oip.TooLarge
	case errors.Is(err, repo.ErrName), errors.Is(err, repo.ErrDigest),
		errors.Is(err, io.ErrUnexpectedEOF):
		kind = oip.Invalid
	}
	return &oip.Fault{Kind: kind, Text: text(err), Err: err}
}

// contentDigest is the SHA-256 that a header says (RFC 9530, section 2), nil where there is none.
func contentDigest(values []string) ([]byte, error) {
	for item := range strings.SplitSeq(strings.Join(values, ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(item), "=")
		if name != "sha-256" {
			continue
		}
		value = strings.TrimSuffix(strings.TrimPrefix(value, ":"), ":")
		sum, err := base64.StdEncoding.DecodeString(value)
		if err != nil || len(sum) != sha256.Size {
			return nil, oip.Faultf(oip.Invalid, "Content-Digest: sha-256 is %.80q: give 32 bytes "+
				"in base64 between colons", value)
		}
		return bytes.Clone(sum), nil
	}
	return nil, nil
}
