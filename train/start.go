package train

import (
	"hash/fnv"
	"math"
	"math/rand/v2"

	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/recipe"
	"github.com/weirgpu/weir/train/step"
)

// start sets the state to what the recipe starts with.
func (r *Run) start() error {
	clear(r.state.Bytes())
	for _, p := range r.step.Params {
		v := r.variable(p.Name)
		if err := v.Set(p.Start); err != nil {
			return err
		}
		if r.recipe.Start == recipe.FromRandom {
			draw(tensor.As[float32](v), p, r.recipe.Seed)
		}
		if p.Average != "" {
			if err := r.variable(p.Average).Set(v); err != nil {
				return err
			}
		}
	}
	for _, v := range r.step.Scale {
		if err := r.variable(v.Name).Set(v.Start); err != nil {
			return err
		}
	}
	r.done, r.history = 0, History{}
	return nil
}

// draw sets a weight to what it is before training, from the seed and its name alone: products as
// He et al. (2015) have them for rectifiers, tables as BERT has them.
func draw(v []float32, p step.Param, seed uint64) {
	h := fnv.New64a()
	h.Write([]byte(p.Name))
	r := rand.New(rand.NewPCG(seed, h.Sum64()))
	fill := func(number func() float64) {
		for i := range v {
			v[i] = float32(number())
		}
	}
	switch p.Role {
	case step.Product:
		deviation := math.Sqrt(2 / float64(max(p.Fan, 1)))
		fill(func() float64 { return deviation * r.NormFloat64() })
	case step.Table:
		fill(func() float64 { return 0.02 * r.NormFloat64() })
	case step.Scale:
		fill(func() float64 { return 1 })
	case step.Slope:
		fill(func() float64 { return 0.25 })
	case step.Bias:
		fill(func() float64 { return 0 })
	case step.Mean:
		fill(func() float64 { return 0 })
	case step.Variance:
		fill(func() float64 { return 1 })
	}
}
