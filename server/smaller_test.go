package server

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

// wide is a model that keeps a value of 256 KiB for a late reader, which a smaller plan computes
// again.
func wide(t *testing.T, rows string) Source {
	t.Helper()
	g, err := graph.Parse(fmt.Sprintf(`graph "wide" {
		opset "" 17
		input %%x: float32[%s,256]
		const %%to: int64[3] = {1, 256, 256}
		const %%mid: int64[1] = {1}
		%%u = Unsqueeze@13 (%%x, %%mid)
		%%a = Expand@13 (%%u, %%to)
		%%b = Softmax@13 (%%a) {axis=1}
		%%c = Softmax@13 (%%b) {axis=2}
		%%d = MatMul@13 (%%c, %%b)
		%%e = Add@14 (%%d, %%a)
		%%y = ReduceSum@13 (%%e, %%mid) {keepdims=0}
		output %%y
	}`, rows))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := onnx.Write(&b, g, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return Source{Name: "wide", Version: 1, Open: func() (*weir.Model, error) {
		return weir.Load(b.Bytes())
	}}
}

// TestSmallerPlan: a model whose cap is lowered below what its plan for one row takes answers by a
// smaller plan, with the same bits, and holds no more than the cap; below what any plan takes the
// cap is refused. Nothing that the server does for its other models raises the cap again.
func TestSmallerPlan(t *testing.T) {
	for _, lend := range []bool{false, true} {
		for _, rows := range []string{"1", "N"} {
			t.Run(fmt.Sprintf("lend %t rows %s", lend, rows), func(t *testing.T) {
				smallerPlan(t, lend, rows)
			})
		}
	}
}

func smallerPlan(t *testing.T, lend bool, rows string) {
	s := begin(t, Options{Lend: lend, Host: weir.HostOptions{Memory: 64 * weir.MiB}}, wide(t, rows))
	ask := func() ([]float32, error) {
		row := make([]float32, 256)
		for i := range row {
			row[i] = float32(i) / 99
		}
		a, err := s.Infer(t.Context(), "wide", "", &oip.Request{Inputs: []oip.Input{
			{Name: "x", Tensor: tensor.From(row, 1, 256)}}})
		if err != nil {
			return nil, err
		}
		defer a.Close()
		return append([]float32(nil), tensor.As[float32](a.Outputs[0].Tensor)...), nil
	}
	want, err := ask()
	if err != nil {
		t.Fatal(err)
	}
	v := s.models["wide"].newest()
	v.server.background.Wait()
	u := v.job.Usage()
	small := u.Share
	small.Memory = u.Memory - 200*weir.KiB // of 256 KiB that %a takes
	before, err := s.SetShare("wide", small)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		got, err := ask()
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("under %v: %v", small.Memory, err)
		}
		s.promising <- struct{}{}
		s.tighten()
		<-s.promising
		if u := v.job.Usage(); u.Memory > small.Memory || u.Share.Memory > small.Memory {
			t.Errorf("%v are held and %v promised under a cap of %v", u.Memory, u.Share.Memory,
				small.Memory)
		}
	}
	least := small
	least.Memory = u.Memory / 4
	if _, err := s.SetShare("wide", least); !errors.Is(err, weir.ErrMemory) {
		t.Errorf("a cap of %v: %v", least.Memory, err)
	}
	if _, err := s.SetShare("wide", before); err != nil {
		t.Fatal(err)
	}
	if got, err := ask(); err != nil || !slices.Equal(got, want) {
		t.Errorf("under the cap of before: %v", err)
	}
}
