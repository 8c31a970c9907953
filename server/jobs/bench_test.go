package jobs

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/audit"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/store"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/zoo"
)

// BenchmarkBeside is the latency of requests for a model of class latency, in process, which come
// by chance 200 times a second, without and with a batch job of a large model beside them, in
// windows of two seconds that take turns. The first of each window, in which the job is loaded, is
// left out.
func BenchmarkBeside(b *testing.B) {
	for _, policy := range []string{"priority", "fair"} {
		b.Run(policy, func(b *testing.B) { beside(b, policy) })
	}
}

func beside(b *testing.B, policy string) {
	state, err := store.Open(b.Context(), b.TempDir(), store.Options{}, audit.Room, auth.Room, Room)
	if err != nil {
		b.Fatal(err)
	}
	defer state.Close()
	quiet := slog.New(slog.DiscardHandler)
	s, err := server.New(server.Options{Log: quiet, Batch: 1,
		Host: weir.HostOptions{Policy: policy}})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	g, err := zoo.New("mobilenetv2", zoo.Options{})
	if err != nil {
		b.Fatal(err)
	}
	var file bytes.Buffer
	if err := onnx.Write(&file, g, onnx.WriteOptions{}); err != nil {
		b.Fatal(err)
	}
	if err := s.LoadAll(b.Context(), append(models("digits"), server.Source{Name: "large",
		Version: 1, Open: func() (*weir.Model, error) {
			return weir.Load(file.Bytes())
		}})); err != nil {
		b.Fatal(err)
	}
	for _, u := range s.Status().Jobs {
		if u.Name == "digits" {
			u.Share.Class = weir.Latency
			if _, err := s.SetShare(u.Name, u.Share); err != nil {
				b.Fatal(err)
			}
		}
	}
	j, err := Open(b.Context(), Options{Store: state, Server: s, Log: quiet})
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close(context.Background())
	in := packed(b, map[string]*tensor.Tensor{g.Inputs[0].Name: tensor.From(
		make([]float32, 500*3*224*224), 500, 3, 224, 224)})
	var alone, beside []float64
	n := 0
	for b.Loop() {
		n++
		alone = append(alone, latencies(b, s, time.Second, 2*time.Second)...)
		job, _, err := j.Make(b.Context(), Asked{Key: fmt.Sprint(n), Model: "large", Size: -1},
			bytes.NewReader(in))
		if err != nil {
			b.Fatal(err)
		}
		before := job.Done
		beside = append(beside, latencies(b, s, time.Second, 2*time.Second)...)
		if job, err = j.Get(b.Context(), job.ID); err != nil || job.Done == before {
			b.Fatalf("the job beside is %+v, %v", job, err)
		}
		b.ReportMetric(float64(job.Done)/3, "rows/s")
		if err := j.Cancel(b.Context(), job.ID); err != nil && job.State != Done {
			b.Fatal(err)
		}
	}
	for q, name := range map[float64]string{0.5: "p50", 0.99: "p99"} {
		x, y := quantile(alone, q), quantile(beside, q)
		b.ReportMetric(x, name+"-alone-us")
		b.ReportMetric(y, name+"-beside-us")
		b.ReportMetric(y/x, name+"-ratio")
	}
}

// quantile is that of numbers, which it sorts.
func quantile(list []float64, q float64) float64 {
	slices.Sort(list)
	return list[int(q*float64(len(list)-1))]
}

// latencies are those, in microseconds, of requests that come by chance over a time, after another
// time in which they are not counted.
func latencies(b *testing.B, s *server.Server, first, after time.Duration) (list []float64) {
	x := rows(1)
	r := &oip.Request{Inputs: []oip.Input{{Name: "image", Tensor: x}}}
	rng := rand.New(rand.NewPCG(1, 2))
	begin := time.Now()
	for next := begin; ; {
		next = next.Add(time.Duration(rng.ExpFloat64() * float64(5*time.Millisecond)))
		if next.Sub(begin) > first+after {
			return list
		}
		time.Sleep(time.Until(next))
		a, err := s.Infer(b.Context(), "digits", "", r)
		if err != nil {
			b.Fatal(err)
		}
		a.Close()
		if next.Sub(begin) > first {
			list = append(list, float64(time.Since(next))/1e3)
		}
	}
}
