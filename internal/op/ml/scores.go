package ml

import (
	"math"

	"github.com/weirgpu/weir/internal/op"
)

// postTransform is what the models of [Domain] do to their scores at the end.
type postTransform int

// The transforms, numbered as TreeEnsemble version 5 numbers them.
const (
	postNone postTransform = iota
	postSoftmax
	postLogistic
	postSoftmaxZero
	postProbit
)

// transform reads attribute post_transform, a string.
func transform(c *op.Call) (postTransform, error) {
	i, err := choice(c, "post_transform", "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
	return postTransform(i), err
}

// applyPost transforms the scores of one row, in float32 arithmetic as ONNX Runtime does (its
// ml_common.h): where results are compared with thresholds, a last bit decides.
//
// A score that stands alone is left as it is by all but PROBIT. ONNX's text does not say so; ONNX
// Runtime does it, and what exporters write relies on it.
func applyPost[T float](p postTransform, scores []T) {
	switch {
	case p == postProbit:
		for i, v := range scores {
			scores[i] = T(probit(float32(v)))
		}
	case len(scores) < 2:
	case p == postLogistic:
		for i, v := range scores {
			scores[i] = T(logistic(float32(v)))
		}
	case p == postSoftmax:
		softmaxScores(scores, false)
	case p == postSoftmaxZero:
		softmaxScores(scores, true)
	}
}

// softmaxScores is SOFTMAX, or with zero SOFTMAX_ZERO, which takes no part of the sum for scores
// that are zero.
func softmaxScores[T float](scores []T, zero bool) {
	top := float32(-math.MaxFloat32)
	for _, v := range scores {
		if float32(v) > top {
			top = float32(v)
		}
	}
	sum := float32(0)
	for i, v := range scores {
		s := float32(v)
		if zero && !(s > 1e-7 || s < -1e-7) {
			scores[i] = T(s * exp32(-top))
			continue
		}
		e := exp32(s - top)
		scores[i] = T(e)
		sum += e
	}
	for i, v := range scores {
		scores[i] = T(float32(v) / sum)
	}
}

func exp32(v float32) float32 { return float32(math.Exp(float64(v))) }

// logistic is 1 / (1 + e^-v) without overflow.
func logistic(v float32) float32 {
	s := 1 / (1 + exp32(-abs32(v)))
	if v < 0 {
		return 1 - s
	}
	return s
}

func abs32(v float32) float32 { return math.Float32frombits(math.Float32bits(v) &^ (1 << 31)) }

// probit is the quantile function of the normal distribution, with Winitzki's approximation of the
// inverse error function that ONNX Runtime uses ("A handy approximation for the error function and
// its inverse", 2008, eq. 7, a = 0.147).
func probit(v float32) float32 {
	x := 2*v - 1
	log := float32(math.Log(float64((1 - x) * (1 + x))))
	a := 2/(float32(math.Pi)*0.147) + 0.5*log
	b := 1 / float32(0.147) * log
	r := float32(math.Sqrt(float64(-a + float32(math.Sqrt(float64(a*a-b))))))
	if x < 0 {
		r = -r
	}
	return float32(math.Sqrt2) * r
}

// secondClass says how the score of a single positive class becomes those of two.
type secondClass int

const (
	secondComplement secondClass = iota // it is a probability: 1 - s, s
	secondNegative                      // it has a sign: -s, s
)

// expand returns the two scores of a model that has one; LOGISTIC takes the score and its negative.
// PROBIT takes the place of the first, as in ONNX Runtime, which leaves the second as it finds it;
// here it is zero.
func (p postTransform) expand(s float32, how secondClass) (first, second float32) {
	switch {
	case p == postProbit:
		return probit(s), 0
	case p == postLogistic:
		return logistic(-s), logistic(s)
	case how == secondComplement:
		return 1 - s, s
	}
	return -s, s
}
