package cpu_test

import (
	"context"
	"fmt"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu"
)

// scale is a region: it multiplies data by factor, in chunks of grain elements. A caller keeps one
// and sets its fields before each call of Run.
type scale struct {
	data   []float32
	factor float32
	grain  int
}

func (s *scale) Chunk(i, _ int) {
	for j := i * s.grain; j < min((i+1)*s.grain, len(s.data)); j++ {
		s.data[j] *= s.factor
	}
}

func ExamplePool_Run() {
	pool := cpu.NewPool(cpu.PoolOptions{})
	defer pool.Close()

	r := &scale{data: make([]float32, 100_000), factor: 3, grain: 16_384}
	for i := range r.data {
		r.data[i] = 2
	}
	chunks := (len(r.data) + r.grain - 1) / r.grain
	if err := pool.Run(context.Background(), device.Open, chunks, r); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.data[0], r.data[len(r.data)-1])
	// Output: 6 6
}
