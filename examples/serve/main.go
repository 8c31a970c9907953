// Command serve answers over HTTP which digit a picture shows, with a deadline for each request.
//
//	go run ./examples/serve [ADDRESS]
//	curl -d '{"pixels": [0, 0.5, ...]}' http://localhost:8080/classify
//
// Meet first: handler, and status, which says whose fault an error is: 400 for what the request has
// wrong, 503 with Retry-After for more requests than the machine can answer in time, 500 for the
// rest.
//
// Concurrency: one goroutine a request; the model lets as many of them compute at a time as there
// are cores, and the others wait until their deadline.
//
// What it refuses: requests of more than 64 KiB, and those that are not 64 numbers.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	address := "localhost:8080"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	if err := serve(ctx, address); err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

// serve answers until ctx is done, and then what is under way.
func serve(ctx context.Context, address string) error {
	m, err := weir.Load(digits.Model)
	if err != nil {
		return err
	}
	defer m.Close()
	h := &handler{model: m, deadline: 100 * time.Millisecond}
	// the first request is not to wait until the model is compiled
	if _, err := h.classify(ctx, make([]float32, digits.Side*digits.Side)); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /classify", h)
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	s := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	slog.Info("serving", "address", l.Addr())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return s.Shutdown(last)
}

// handler answers requests with a model.
type handler struct {
	model    *weir.Model
	deadline time.Duration // of a request
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), h.deadline)
	defer cancel()
	var request struct {
		Pixels []float32 `json:"pixels"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	probabilities, err := h.classify(ctx, request.Pixels)
	if err != nil {
		code := status(err)
		if code == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "1")
		}
		http.Error(w, err.Error(), code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"probabilities": probabilities})
}

// classify returns the probability of each digit.
func (h *handler) classify(ctx context.Context, pixels []float32) ([]float32, error) {
	image, err := weir.NewTensor(pixels, 1, 1, digits.Side, digits.Side)
	if err != nil {
		return nil, err
	}
	out, err := h.model.Run(ctx, weir.Inputs{"image": image})
	if err != nil {
		return nil, err
	}
	defer out.Close()
	probabilities, err := weir.Output[float32](out, "probabilities")
	if err != nil {
		return nil, err
	}
	return append([]float32(nil), probabilities...), nil // which end with the result
}

// status is the HTTP status of an error.
func status(err error) int {
	switch {
	case errors.Is(err, weir.ErrInput):
		return http.StatusBadRequest
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, weir.ErrMemory),
		errors.Is(err, weir.ErrClosed):
		return http.StatusServiceUnavailable
	case errors.Is(err, context.Canceled):
		return 499 // nobody reads it: the client is gone
	}
	return http.StatusInternalServerError
}
