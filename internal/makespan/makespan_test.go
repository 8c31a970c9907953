package makespan

import "testing"

func TestCores(t *testing.T) {
	for _, e := range []struct {
		name  string
		costs []float64
		want  float64
	}{
		{"nothing", nil, 0},
		{"one chunk keeps all others waiting", []float64{3}, 3 + 2*3 + 4*3},
		{"two", []float64{1, 1}, 2 + 2*1 + 4*1},
		{"three take two workers as long as four do", []float64{1, 1, 1}, 3 + 2*2 + 4*1},
		{"four", []float64{1, 1, 1, 1}, 4 + 2*2 + 4*1},
		{"a long one first", []float64{3, 1, 1, 1}, 6 + 2*3 + 4*3},
		{"a long one last", []float64{1, 1, 1, 3}, 6 + 2*4 + 4*3},
	} {
		if got := Cores(len(e.costs), func(c int) float64 { return e.costs[c] }); got != e.want {
			t.Errorf("%s: %v, want %v", e.name, got, e.want)
		}
	}
}
