package vec

import (
	"math"
	"math/rand/v2"
	"testing"
)

func layerNorm64(x, gamma, beta []float32, eps float64) []float64 {
	var mean, variance float64
	for _, v := range x {
		mean += float64(v) / float64(len(x))
	}
	for _, v := range x {
		d := float64(v) - mean
		variance += d * d / float64(len(x))
	}
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = (float64(v) - mean) / math.Sqrt(variance+eps)
		if gamma != nil {
			y[i] *= float64(gamma[i])
		}
		if beta != nil {
			y[i] += float64(beta[i])
		}
	}
	return y
}

func TestLayerNorm(t *testing.T) {
	const eps = 1e-5
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(10, 11))
		for _, n := range tailLengths()[1:] {
			x, gamma, beta := make([]float32, n+1)[1:], make([]float32, n), make([]float32, n)
			for _, s := range [][]float32{x, gamma, beta} {
				fillOrdinary(s, r)
			}
			AddScalar(x, x, 3)
			for _, affine := range [][2][]float32{{gamma, beta}, {gamma, nil}, {nil, beta},
				{nil, nil}} {
				y, intact := guardedFloats(n, 1)
				copy(y, x)
				LayerNorm(y, y, affine[0], affine[1], eps)
				for i, want := range layerNorm64(x, affine[0], affine[1], eps) {
					if math.Abs(float64(y[i])-want) > 5e-6*(1+math.Abs(want)) {
						t.Fatalf("LayerNorm, n=%d: at %d: %v, want %v", n, i, y[i], want)
					}
				}
				if err := intact(); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

func TestRMSNorm(t *testing.T) {
	const eps = 1e-6
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(12, 13))
		for _, n := range tailLengths()[1:] {
			x, gamma := make([]float32, n), make([]float32, n)
			fillOrdinary(x, r)
			fillOrdinary(gamma, r)
			scale := 1 / math.Sqrt(float64(SumSquares(x))/float64(n)+eps)
			plain, plainIntact := guardedFloats(n, 3)
			scaled, scaledIntact := guardedFloats(n, 2)
			RMSNorm(plain, x, nil, eps)
			RMSNorm(scaled, x, gamma, eps)
			for i, v := range x {
				want := float64(v) * scale
				if math.Abs(float64(plain[i])-want) > 1e-6*math.Abs(want) ||
					math.Abs(float64(scaled[i])-want*float64(gamma[i])) >
						1e-6*math.Abs(want*float64(gamma[i])) {
					t.Fatalf("RMSNorm, n=%d: at %d: %v and %v, want %v", n, i, plain[i], scaled[i],
						want)
				}
			}
			for _, err := range []error{plainIntact(), scaledIntact()} {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// A large mean must not drown the variance, as it does in the mean of squares less the square of
// the mean.
func TestMeanVarianceWithALargeMean(t *testing.T) {
	x := []float32{10000, 10001, 10002, 10003}
	atEachLevel(t, func(t *testing.T) {
		if mean, variance := MeanVariance(x); mean != 10001.5 || variance != 1.25 {
			t.Errorf("MeanVariance = %v, %v, want 10001.5, 1.25", mean, variance)
		}
		if mean, variance := MeanVariance(nil); !isNaN(mean) || !isNaN(variance) {
			t.Errorf("MeanVariance(nil) = %v, %v, want NaN", mean, variance)
		}
	})
}
