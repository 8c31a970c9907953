package weir

import (
	"context"
	"testing"

	"github.com/weirgpu/weir/examples/digits"
)

// TestNothingIsHeldAfterClose counts device memory over runs of several shapes, evictions and open results.
func TestNothingIsHeldAfterClose(t *testing.T) {
	d, err := sharedDevice()
	if err != nil {
		t.Fatal(err)
	}
	before := d.Held()
	m, err := Load(digits.Model, WithMaxShapes(2))
	if err != nil {
		t.Fatal(err)
	}
	var open []Result
	for n := 1; n <= 4; n++ {
		in := Inputs{"image": NewTensor(make([]float32, n*digits.Side*digits.Side), n, 1, digits.Side, digits.Side)}
		for range 2 {
			r, err := m.Run(context.Background(), in)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, r)
		}
		if n%2 == 0 {
			open[0].Close()
			open = open[1:]
		}
	}
	if d.Held() == before {
		t.Error("open results hold nothing")
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	for _, r := range open {
		r.Close()
	}
	if held := d.Held() - before; held != 0 {
		t.Errorf("%d bytes are held after the last result was closed", held)
	}
}
