package attention

import "math"

// Reference computes the whole call in plain Go with sums in float64: the definition of what
// Attention computes.
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
			s += float64(p.Format.Round(q)) * float64(p.Format.Round(key))
		}
		s *= float64(p.Scale)
		if p.Cap != 0 {
			s = float64(p.Cap) * math.Tanh(s/float64(p.Cap))
		}
		if k < lo || k >= hi || p.Keep.Given && a.Keep[p.Keep.element(b, h, i, k)] == 0 {
			if !p.Added {
				s = 0
			}
			s = float64(float32(s) + p.Hidden)
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

// GradientReference computes the whole gradient in plain Go with sums in float64: the definition of
// what [Gradient] computes.
func GradientReference(p Params, a *GradientArgs) {
	dq, dk, dv := make([]float64, len(a.DQ)), make([]float64, len(a.DK)), make([]float64, len(a.DV))
	scores := make([]float64, p.Keys)
	for b := range p.Batch {
		for h := range p.Heads {
			for i := range p.Queries {
				p.referenceScores(&a.Args, scores, b, h, i)
				p.referenceSlopes(a, scores, b, h, i, dq, dk, dv)
			}
		}
	}
	for _, r := range []struct {
		to   []float32
		from []float64
	}{{a.DQ, dq}, {a.DK, dk}, {a.DV, dv}} {
		for i, v := range r.from {
			r.to[i] = float32(v)
		}
	}
}

// referenceSlopes adds what one query gives.
func (p *Params) referenceSlopes(a *GradientArgs, scores []float64, b, h, i int, dq, dk,
	dv []float64) {
	kv, y := h/(p.Heads/p.KVHeads), p.Y.at(b, h, i)
	stats := a.Stats[2*((b*p.Heads+h)*p.Queries+i):]
	q, mean := p.Q.at(b, h, i), 0.0
	for d := range p.ValueSize {
		mean += float64(a.DY[y+d]) * float64(a.Y[y+d])
	}
	_, hi := p.sees(&a.Args, b, i)
	for t, s := range scores {
		w, slope := math.Exp(s-float64(stats[0]))/float64(stats[1]), 0.0
		v, k := p.V.at(b, kv, t), p.K.at(b, kv, t)
		for d := range p.ValueSize {
			dv[v+d] += w * float64(a.DY[y+d])
			slope += float64(a.DY[y+d]) * float64(a.V[v+d])
		}
		slope = float64(p.Scale) * w * (slope - mean)
		if !p.Added && (t >= hi || p.Keep.Given && a.Keep[p.Keep.element(b, h, i, t)] == 0) {
			slope = 0
		}
		for d := range p.Size {
			dq[q+d] += slope * float64(a.K[k+d])
			dk[k+d] += slope * float64(a.Q[q+d])
		}
	}
}

// referenceRow weighs the values of one query.
func (p *Params) referenceRow(a *Args, scores []float64, b, h, i int) {
	peak, sum, first := math.Inf(-1), 0.0, 0
	if p.Blind {
		lo, hi := p.sees(a, b, i)
		scores, first = scores[lo:hi], lo
	}
	if p.Sink {
		peak = float64(a.Sinks[h])
	}
	for _, s := range scores {
		peak = math.Max(peak, s)
	}
	none := p.Zero && math.IsInf(float64(p.Hidden), -1) && p.referenceHidden(a, b, h, i)
	if p.Sink {
		sum = math.Exp(float64(a.Sinks[h]) - peak)
	}
	acc := make([]float64, p.ValueSize)
	for k, s := range scores {
		w := math.Exp(s - peak)
		if none {
			w = 0
		}
		sum += w
		for d := range acc {
			acc[d] += w * float64(a.V[p.V.at(b, h/(p.Heads/p.KVHeads), first+k)+d])
		}
	}
	if none {
		sum = 1
	}
	for d, v := range acc {
		a.Y[p.Y.at(b, h, i)+d] = float32(v / sum)
	}
	if p.Stats {
		to := a.Stats[2*((b*p.Heads+h)*p.Queries+i):]
		to[0], to[1] = float32(peak), float32(sum)
	}
}

// referenceHidden reports whether query i sees no key.
func (p *Params) referenceHidden(a *Args, b, h, i int) bool {
	lo, hi := p.sees(a, b, i)
	for k := lo; k < hi; k++ {
		kept := !p.Keep.Given || a.Keep[p.Keep.element(b, h, i, k)] != 0
		if kept && (!p.Bias.Given || !math.IsInf(float64(a.Bias[p.Bias.element(b, h, i, k)]), -1)) {
			return false
		}
	}
	return true
}
