package server

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
)

// heavy is a model with 256 KiB of weights: its answers are n times the sums of its inputs.
func heavy(t *testing.T, n int) Source {
	t.Helper()
	g, err := graph.ParseExternal(`graph "heavy" {
		opset "" 17
		input %x: float32[N,64]
		const %w: float32[64,1024] = at 0
		%y: float32[N,1024] = MatMul@13 (%x, %w)
		output %y
	}`, func(d tensor.DType, shape []int, _ int64) (*tensor.Tensor, error) {
		x, err := tensor.New(d, shape...)
		for i := range tensor.As[float32](x) {
			tensor.As[float32](x)[i] = float32(n)
		}
		return x, err
	})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := onnx.Write(&b, g, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return Source{Name: fmt.Sprint("m", n), Version: 1, Open: func() (*weir.Model, error) {
		return weir.Load(b.Bytes())
	}}
}

// TestLend: twenty models whose sum is several times the memory are all served over HTTP, with rows
// that vary and without an error; never is more held than there is, one that keeps memory is there,
// and those that are idle are away.
func TestLend(t *testing.T) {
	var sources []Source
	for n := range 20 {
		sources = append(sources, heavy(t, n+1))
	}
	const memory = 1500 * weir.KiB
	s := begin(t, Options{Lend: true, Batch: 4, Host: weir.HostOptions{Memory: memory},
		Terms: func(model string) weir.Share {
			if model == "m7" {
				return weir.Share{Keep: 256 * weir.KiB, Memory: memory / 2}
			}
			return weir.Share{}
		}}, sources...)
	var wait sync.WaitGroup
	for k := range 4 {
		rng := rand.New(rand.NewPCG(uint64(k), 2))
		wait.Go(func() {
			for range 100 {
				n, rows := 1+rng.IntN(20), 1+rng.IntN(9)
				r := ask(s, "POST", fmt.Sprintf("/v2/models/m%d/infer", n), fmt.Appendf(nil,
					`{"inputs":[{"name":"x","datatype":"FP32","shape":[%d,64],"data":[%s]}]}`, rows,
					strings.Repeat(",1", rows*64)[1:]))
				want := fmt.Sprintf(`"data":[%s]`, strings.Repeat(fmt.Sprint(",", 64*n),
					rows*1024)[1:])
				b := string(all(t, r))
				if r.StatusCode != http.StatusOK || !strings.Contains(b, want) {
					t.Errorf("m%d, %d rows: %s %.200s", n, rows, r.Status, b)
				}
				if st := s.Status(); st.Held > st.Memory || st.Promised != 256*weir.KiB {
					t.Errorf("%v held and %v promised of %v", st.Held, st.Promised, st.Memory)
				}
			}
		})
	}
	wait.Wait()
	s.background.Wait()
	away := 0
	for _, u := range s.Status().Jobs {
		switch {
		case u.Name == "m7/1" && u.Memory == 0:
			t.Error("m7 is away")
		case u.Memory < 256*weir.KiB:
			away++
		}
	}
	if away < 13 {
		t.Errorf("%d of 20 models are away", away)
	}
	before, err := s.SetShare("m3", weir.Share{Keep: 300 * weir.KiB})
	if err != nil || before.Keep != 0 {
		t.Errorf("keep m3: %+v, %v", before, err)
	}
	if _, err := s.SetShare("m4", weir.Share{Memory: memory, Keep: memory}); err == nil {
		t.Error("all of the memory was promised twice")
	}
}
