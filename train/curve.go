package train

// Curve is the losses of a run's updates, thinned where there are many: each point is the mean of
// Stride updates.
type Curve struct {
	Stride int       `json:"stride"`
	Losses []float64 `json:"losses"`

	sum   float64
	count int
}

// maxPoints bounds a curve.
const maxPoints = 1024

func (c *Curve) add(loss float64) {
	c.Stride = max(c.Stride, 1)
	c.sum += loss
	if c.count++; c.count < c.Stride {
		return
	}
	c.Losses = append(c.Losses, c.sum/float64(c.count))
	c.sum, c.count = 0, 0
	if len(c.Losses) < maxPoints {
		return
	}
	for i := range maxPoints / 2 {
		c.Losses[i] = (c.Losses[2*i] + c.Losses[2*i+1]) / 2
	}
	c.Losses, c.Stride = c.Losses[:maxPoints/2], 2*c.Stride
}
