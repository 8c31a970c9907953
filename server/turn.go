package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/weirgpu/weir/server/oip"
)

func (s *Server) loadModel(w http.ResponseWriter, r *http.Request) error {
	return s.turn(w, r, s.LoadModel)
}

func (s *Server) unloadModel(w http.ResponseWriter, r *http.Request) error {
	return s.turn(w, r, s.UnloadModel)
}

// turn answers a request to load or unload a model (Triton, extension_model_repository.md), with
// nothing where it succeeds.
func (s *Server) turn(w http.ResponseWriter, r *http.Request,
	do func(context.Context, string, oip.Parameters) error) error {
	body := body{of: s, to: timed(w), began: time.Now()}
	defer body.release()
	all, err := body.read(w, r)
	if err != nil {
		w.Header().Set("Connection", "close")
		return err
	}
	p, err := turnParameters(all)
	if err != nil {
		return err
	}
	if err := do(r.Context(), r.PathValue("model"), p); err != nil {
		return err
	}
	_ = body.to.SetWriteDeadline(time.Now().Add(patience)) // loading may have taken longer
	w.WriteHeader(http.StatusOK)
	return nil
}

// turnParameters are those of a body, which may be empty.
func turnParameters(body []byte) (oip.Parameters, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, nil
	}
	var asked struct {
		Parameters map[string]any `json:"parameters"`
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		return nil, fmt.Errorf("%w: the body is no JSON object with parameters: %w", oip.ErrRequest,
			err)
	}
	for key, v := range asked.Parameters {
		if n, ok := v.(float64); ok && n == float64(int64(n)) {
			asked.Parameters[key] = int64(n)
		}
	}
	return asked.Parameters, unwrap(asked.Parameters)
}
