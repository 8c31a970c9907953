// Command share runs two models on one device: one that somebody waits for, and one that takes what
// is left.
//
//	go run ./examples/share
//
// Meet first: share, the lines that it takes; the rest is the two programs that use the models.
//
// Concurrency: a goroutine for each model.
//
// What it refuses: nothing; it takes no arguments.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	usage, err := share(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "share:", err)
		os.Exit(1)
	}
	for _, u := range usage {
		fmt.Printf("%-8s %-13v %6d runs, %6v of the device, %v of memory at most\n", u.Name,
			u.Share.Class, u.Runs, u.Used.Round(time.Millisecond), u.Peak.About())
	}
}

// share runs both models until ctx is done, and returns what each got.
func share(ctx context.Context) ([]weir.Usage, error) {
	host, err := weir.NewHost(weir.HostOptions{Policy: "priority"})
	if err != nil {
		return nil, err
	}
	defer host.Close()
	requests, err := admit(ctx, host, 1, weir.Job{Name: "requests",
		Share: weir.Share{Class: weir.Latency, Compute: 0.5, Memory: 2 * weir.MiB}})
	if err != nil {
		return nil, err
	}
	defer requests.Close()
	nightly, err := admit(ctx, host, 64, weir.Job{Name: "nightly",
		Share: weir.Share{Class: weir.Opportunistic}})
	if err != nil {
		return nil, err
	}
	defer nightly.Close()
	var wg sync.WaitGroup
	var errs [2]error
	wg.Go(func() { errs[0] = serve(ctx, requests, 1, 10*time.Millisecond) })
	wg.Go(func() { errs[1] = serve(ctx, nightly, 64, 0) })
	wg.Wait()
	return host.Status().Jobs, errors.Join(errs[:]...)
}

// admit opens the model as a job of the host, for n pictures at a time.
func admit(ctx context.Context, host *weir.Host, n int, j weir.Job) (*weir.Model, error) {
	m, err := weir.Load(digits.Model) // or weir.Open("digits.onnx")
	if err != nil {
		return nil, err
	}
	j.Shapes = map[string][]int{"image": {n, 1, digits.Side, digits.Side}}
	if _, err := host.Admit(ctx, m, j); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// serve runs a model on n pictures, with a pause after each, until ctx is done.
func serve(ctx context.Context, m *weir.Model, n int, pause time.Duration) error {
	image, err := weir.NewTensor(make([]float32, n*digits.Side*digits.Side), n, 1, digits.Side,
		digits.Side)
	if err != nil {
		return err
	}
	next := time.NewTicker(max(pause, time.Microsecond))
	defer next.Stop()
	for ctx.Err() == nil {
		out, err := m.Run(ctx, weir.Inputs{"image": image})
		if err != nil && ctx.Err() == nil {
			return err
		}
		out.Close()
		if pause > 0 {
			select {
			case <-next.C:
			case <-ctx.Done():
			}
		}
	}
	return nil
}
