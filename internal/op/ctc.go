package op

import (
	"math"

	"github.com/weirgpu/weir/tensor"
)

// CTC is connectionist temporal classification (Graves et al. 2006, section 4), the loss of labels
// whose places in a sequence are not known:
//
//	loss = weir:CTC(scores, labels, lengths)
//
// Scores are samples × steps × classes, of which a softmax over the classes is taken; labels int64
// of samples × most labels, filled up behind with -1; lengths, optional, int64 of samples, the
// steps of each that count. The loss of a sample is the negative logarithm of the probability of
// all paths that become its labels when repeats, and then class blank, are taken out
// (torch.nn.CTCLoss with reduction none, of log_softmax). It is infinite where no path of so many
// steps does.
const CTC = "CTC"

// CTCGradient is the gradient of the scores of [CTC]:
//
//	dscores = weir:CTCGradient(scores, labels, dloss, lengths)
//
// It is 0 in steps that do not count, and of samples whose loss is infinite.
const CTCGradient = "CTCGradient"

// CTCBlank is the attribute of both that says which class is that of no label; 0 by default.
const CTCBlank = "blank"

var ctcOps = []Op{
	{Domain: FusedDomain, Name: CTC, Since: []int{1}, MinIn: 2, MaxIn: 3, Infer: inferCTC,
		Eval: InFloat32(evalCTC), grad: gradCTC},
	{Domain: FusedDomain, Name: CTCGradient, Since: []int{1}, MinIn: 3, MaxIn: 4,
		Infer: inferCTCGradient, Eval: InFloat32(evalCTCGradient)},
}

func inferCTC(c *Infer) error {
	n, err := c.ctcOperands(2)
	if err == nil {
		c.Out[0] = Ranked(c.In[0].DType, n)
	}
	return err
}

func inferCTCGradient(c *Infer) error {
	_, err := c.ctcOperands(3)
	if err != nil {
		return err
	}
	if _, err = c.SameDType(floatTypes, c.In[0].DType, c.In[2].DType); err != nil {
		return err
	}
	c.Out[0] = c.In[0].withoutContents()
	return nil
}

// ctcOperands checks the types of scores, labels and the operand with lengths, and returns how many
// samples there are.
func (c *Infer) ctcOperands(lengths int) (n Dim, err error) {
	if _, err := c.SameDType(floatTypes, c.In[0].DType); err != nil {
		return n, err
	}
	n = Unknown()
	for i, rank := range map[int]int{0: 3, 1: 2, lengths: 1} {
		if i >= len(c.In) || i >= c.NumIn || c.In[i].DType == tensor.Undefined {
			continue
		}
		t := c.In[i]
		if i > 0 && t.DType != tensor.Int64 {
			return n, c.Errorf(ErrInput, "input %d is %v, must be int64", i, t)
		}
		if !t.Ranked {
			continue
		}
		if len(t.Shape) != rank || !n.MayEqual(t.Shape[0]) {
			return n, c.Errorf(ErrInput, "input %d is %v, must have %d axes, the first of samples",
				i, t, rank)
		}
		if _, known := n.Int(); !known {
			n = t.Shape[0]
		}
	}
	return n, nil
}

// ctc is a call of CTC or its gradient.
type ctc struct {
	scores                  []float64
	labels                  []int64
	lengths                 []int64 // nil where all steps count
	samples, steps, classes int
	most, blank             int
}

// ctcCall reads the operands.
func (c *Eval) ctcCall(lengths int) (*ctc, error) {
	s, l := c.In[0], c.In[1]
	if s.Rank() != 3 || l.Rank() != 2 || l.DType != tensor.Int64 || l.Shape[0] != s.Shape[0] {
		return nil, c.Errorf(ErrInput, "scores %v and labels %v%v: must be samples × steps × "+
			"classes, and int64 of samples × labels", s.Shape, l.DType, l.Shape)
	}
	x := &ctc{samples: s.Shape[0], steps: s.Shape[1], classes: s.Shape[2], most: l.Shape[1],
		labels: tensor.As[int64](l), blank: int(c.Attrs.Int(CTCBlank, 0))}
	if c.Has(lengths) {
		t := c.In[lengths]
		if t.DType != tensor.Int64 || t.Rank() != 1 || t.Shape[0] != x.samples {
			return nil, c.Errorf(ErrInput, "lengths are %v%v, must be int64 of %d samples", t.DType,
				t.Shape, x.samples)
		}
		x.lengths = tensor.As[int64](t)
		for i, n := range x.lengths {
			if n < 0 || n > int64(x.steps) {
				return nil, c.Errorf(ErrInput, "length %d of sample %d: there are %d steps", n, i,
					x.steps)
			}
		}
	}
	if x.blank < 0 || x.blank >= x.classes {
		return nil, c.Errorf(ErrAttr, "blank %d: there are %d classes", x.blank, x.classes)
	}
	var err error
	x.scores, err = c.Floats(0)
	return x, err
}

// states are the classes of a sample's path without repeats: its labels, with blanks before,
// between and behind.
func (x *ctc) states(c *Eval, i int) ([]int, error) {
	states := []int{x.blank}
	end := false
	for k, label := range x.labels[i*x.most:][:x.most] {
		switch {
		case label == -1:
			end = true
			continue
		case end || label < 0 || label >= int64(x.classes) || int(label) == x.blank:
			return nil, c.Errorf(ErrInput, "label %d of sample %d is %d: must be a class from 0 "+
				"to before %d other than blank %d, or -1 behind the last", k, i, label, x.classes,
				x.blank)
		}
		states = append(states, int(label), x.blank)
	}
	return states, nil
}

// logs are the logarithms of the softmax of a sample's scores.
func (x *ctc) logs(i int) []float64 {
	n := x.steps * x.classes
	v := append([]float64(nil), x.scores[i*n:(i+1)*n]...)
	for t := range x.steps {
		row := v[t*x.classes:][:x.classes]
		most, sum := math.Inf(-1), 0.0
		for _, s := range row {
			most = max(most, s)
		}
		for _, s := range row {
			sum += math.Exp(s - most)
		}
		for k := range row {
			row[k] -= most + math.Log(sum)
		}
	}
	return v
}

func (x *ctc) length(i int) int {
	if x.lengths == nil {
		return x.steps
	}
	return int(x.lengths[i])
}

// addLogs is the logarithm of a sum of numbers by their logarithms.
func addLogs(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if math.IsInf(b, -1) {
		return a
	}
	return a + math.Log1p(math.Exp(b-a))
}

// forward are the logarithms of the probabilities of all begins of paths that end in each state at
// each step.
func (x *ctc) forward(logs []float64, states []int, steps int) []float64 {
	n := len(states)
	a := make([]float64, steps*n)
	for i := range a {
		a[i] = math.Inf(-1)
	}
	for t := range steps {
		for s, class := range states {
			p := math.Inf(-1)
			switch {
			case t == 0 && s < 2:
				p = 0
			case t > 0:
				p = a[(t-1)*n+s]
				if s > 0 {
					p = addLogs(p, a[(t-1)*n+s-1])
				}
				if s > 1 && class != states[s-2] { // blanks are two apart
					p = addLogs(p, a[(t-1)*n+s-2])
				}
			}
			a[t*n+s] = p + logs[t*x.classes+class]
		}
	}
	return a
}

// backward are those of all ends of paths, behind the step.
func (x *ctc) backward(logs []float64, states []int, steps int) []float64 {
	n := len(states)
	b := make([]float64, steps*n)
	for i := range b {
		b[i] = math.Inf(-1)
	}
	for t := steps - 1; t >= 0; t-- {
		for s, class := range states {
			if t == steps-1 {
				if s >= n-2 {
					b[t*n+s] = 0
				}
				continue
			}
			next := func(k int) float64 {
				return b[(t+1)*n+k] + logs[(t+1)*x.classes+states[k]]
			}
			p := next(s)
			if s+1 < n {
				p = addLogs(p, next(s+1))
			}
			if s+2 < n && states[s+2] != class {
				p = addLogs(p, next(s+2))
			}
			b[t*n+s] = p
		}
	}
	return b
}

// ended is the logarithm of the probability of a sample, of what [ctc.forward] gives.
func ended(a []float64, states, steps int) float64 {
	switch {
	case steps == 0 && states == 1:
		return 0
	case steps == 0:
		return math.Inf(-1)
	}
	last := a[(steps-1)*states:]
	if states == 1 {
		return last[0]
	}
	return addLogs(last[states-1], last[states-2])
}

func evalCTC(c *Eval) error {
	x, err := c.ctcCall(2)
	if err != nil {
		return err
	}
	out, err := c.Output(0, c.In[0].DType, []int{x.samples})
	if err != nil {
		return err
	}
	v := make([]float64, x.samples)
	for i := range v {
		states, err := x.states(c, i)
		if err != nil {
			return err
		}
		steps := x.length(i)
		v[i] = -ended(x.forward(x.logs(i), states, steps), len(states), steps)
	}
	return c.round(out, v)
}

func evalCTCGradient(c *Eval) error {
	x, err := c.ctcCall(3)
	if err != nil {
		return err
	}
	d, err := c.FloatsOf(2, x.samples)
	if err != nil {
		return err
	}
	out, err := c.Output(0, c.In[0].DType, c.In[0].Shape)
	if err != nil {
		return err
	}
	v := make([]float64, len(x.scores))
	for i := range x.samples {
		states, err := x.states(c, i)
		if err != nil {
			return err
		}
		n := x.steps * x.classes
		x.gradient(v[i*n:(i+1)*n], i, states, d[i])
	}
	return c.round(out, v)
}

// gradient adds the gradient of a sample's scores: of a step, what the softmax gives less what
// paths through each class have of the probability of all (Graves et al. 2006, equation 16).
func (x *ctc) gradient(to []float64, i int, states []int, d float64) {
	steps, logs := x.length(i), x.logs(i)
	a, b := x.forward(logs, states, steps), x.backward(logs, states, steps)
	p := ended(a, len(states), steps)
	if math.IsInf(p, -1) {
		return
	}
	for t := range steps {
		for k := range x.classes {
			to[t*x.classes+k] = d * math.Exp(logs[t*x.classes+k])
		}
		for s, class := range states {
			at := t*len(states) + s
			to[t*x.classes+class] -= d * math.Exp(a[at]+b[at]-p)
		}
	}
}

func gradCTC(x *gradient) {
	x.zero(1)
	x.zero(2)
	if x.needs(0) {
		x.set(0, x.Ops(FusedDomain, CTCGradient, 1, 1, x.Attrs, x.Input(0), x.Input(1), x.d(0),
			x.Input(2))[0])
	}
}
