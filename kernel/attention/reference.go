package attention

import "math"

// Reference computes the whole call in plain Go with sums in float64: the definition of what Op computes.
func Reference(p Params, a *Args) {
	scores := make([]float64, p.Keys)
	for b := range p.Batch {
		for h := range p.Heads {
			for i := range p.Queries {
				p.referenceScores(a, scores, b, h, i)
				p.referenceRow(a, scores, b, h, i)
			}
		}
	}
}

// referenceScores sets the masked scores of one query.
func (p *Params) referenceScores(a *Args, scores []float64, b, h, i int) {
	kv := h / (p.Heads / p.KVHeads)
	lo, hi := p.sees(a, b, i)
	for k := range scores {
		s := 0.0
		for d := range p.Size {
			q, key := a.Q[p.Q.at(b, h, i)+d], a.K[p.K.at(b, kv, k)+d]
			s += float64(p.Precision.Round(q)) * float64(p.Precision.Round(key))
		}
		s *= float64(p.Scale)
		if p.Cap != 0 {
			s = float64(p.Cap) * math.Tanh(s/float64(p.Cap))
		}
		if k < lo || k >= hi || p.Keep.Given && a.Keep[p.Keep.element(b, h, i, k)] == 0 {
			s = float64(p.Hidden)
		}
		if p.Bias.Given {
			s = float64(float32(s) + a.Bias[p.Bias.element(b, h, i, k)])
		}
		scores[k] = s
	}
}

func (m Mask) element(b, h, i, k int) int {
	if m.Single {
		k = 0
	}
	return m.at(b, h, i) + k
}

// referenceRow weighs the values of one query. A key without weight counts for nothing, whatever its value.
func (p *Params) referenceRow(a *Args, scores []float64, b, h, i int) {
	peak, sum := math.Inf(-1), 0.0
	for _, s := range scores {
		peak = math.Max(peak, s)
	}
	if math.IsInf(peak, -1) && p.Zero {
		clear(a.Y[p.Y.at(b, h, i):][:p.ValueSize])
		return
	}
	acc := make([]float64, p.ValueSize)
	for k, s := range scores {
		w := math.Exp(s - peak)
		sum += w
		for d := range acc {
			if w != 0 {
				acc[d] += w * float64(a.V[p.V.at(b, h/(p.Heads/p.KVHeads), k)+d])
			}
		}
	}
	for d, v := range acc {
		a.Y[p.Y.at(b, h, i)+d] = float32(v / sum)
	}
}
