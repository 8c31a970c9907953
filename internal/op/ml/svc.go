package ml

import "github.com/weirgpu/weir/internal/op"

// svmClassifier is libsvm's one-against-one classification when it has support vectors: a machine
// for each pair of classes, whose sign votes for one of the two; and a linear model with a score
// for each class when it has none.
//
// The layout is libsvm's (Chang and Lin, "LIBSVM: a library for support vector machines", 2011,
// section 4): the vectors are sorted by class, and row k of coefficients holds those for the k-th
// of the other classes.
type svmClassifier struct {
	svm
	labels classLabels
	first  []int // of each class the index of its first vector, and at the end their number
	a, b   []float32
	post   postTransform
	signed bool // some coefficient is negative
}

func readVectorClassifier(c *op.Call) (*svmClassifier, error) {
	m := &svmClassifier{a: c.Attrs.Floats("prob_a"), b: c.Attrs.Floats("prob_b"), first: []int{0}}
	var err error
	if m.labels, err = labels(c, "classlabels_ints", "classlabels_strings"); err != nil {
		return nil, err
	}
	if m.post, err = transform(c); err != nil {
		return nil, err
	}
	total, limit := int64(0), int64(len(c.Attrs.Floats("support_vectors")))
	for _, n := range c.Attrs.Ints("vectors_per_class") {
		if n < 0 || n > limit-total {
			return nil, c.Errorf(op.ErrAttr,
				"vectors_per_class %v with %d elements of support_vectors",
				c.Attrs.Ints("vectors_per_class"), limit)
		}
		total += n
		m.first = append(m.first, int(total))
	}
	if m.svm, err = machine(c, int(total)); err != nil {
		return nil, err
	}
	for _, v := range m.coefficients {
		m.signed = m.signed || !(v >= 0)
	}
	return m, m.check(c)
}

// maxSVMClasses bounds the classes, of which there are half as many pairs as their square.
const maxSVMClasses = 65535

// check compares the sizes of the attributes.
func (m *svmClassifier) check(c *op.Call) error {
	n := m.labels.len()
	switch {
	case n == 0 || n > maxSVMClasses:
		return c.Errorf(op.ErrAttr, "%d class labels, want 1 to %d", n, maxSVMClasses)
	case len(m.a) != len(m.b):
		return c.Errorf(op.ErrAttr, "prob_a has %d elements and prob_b has %d, want as many",
			len(m.a), len(m.b))
	case m.count == 0 && len(m.coefficients)%n != 0:
		return c.Errorf(op.ErrAttr, "%d coefficients for %d classes, want as many for each",
			len(m.coefficients), n)
	case m.count == 0:
		m.features = len(m.coefficients) / n
		return nil
	case len(m.first) != n+1:
		return c.Errorf(op.ErrAttr, "vectors_per_class has %d elements for %d classes",
			len(m.first)-1, n)
	case n < 2:
		return c.Errorf(op.ErrAttr, "one class label with support vectors, want two or more")
	case len(m.coefficients) < (n-1)*m.count:
		return c.Errorf(op.ErrAttr, "%d coefficients, want %d for %d classes and %d vectors",
			len(m.coefficients), (n-1)*m.count, n, m.count)
	case len(m.rho) < m.pairs():
		return c.Errorf(op.ErrAttr, "rho has %d elements, want one for each of %d pairs of classes",
			len(m.rho), m.pairs())
	case len(m.a) > 0 && len(m.a) < m.pairs():
		return c.Errorf(op.ErrAttr,
			"prob_a has %d elements, want one for each of %d pairs of classes", len(m.a), m.pairs())
	}
	return nil
}

func (m *svmClassifier) pairs() int { return m.labels.len() * (m.labels.len() - 1) / 2 }

// votes reports whether pairs of classes vote; otherwise the classes have scores.
func (m *svmClassifier) votes() bool { return m.count > 0 }

// estimates reports whether the scores are probability estimates.
func (m *svmClassifier) estimates() bool { return m.votes() && len(m.a) > 0 }

// scores returns how many scores a row has: those of the pairs when they vote, two for one pair;
// else one a class.
func (m *svmClassifier) scores() int {
	if m.votes() && !m.estimates() && m.labels.len() > 2 {
		return m.pairs()
	}
	return m.labels.len()
}

func inferSVMClassifier(c *op.Infer) error {
	m, err := readVectorClassifier(c.Call)
	if err != nil {
		return err
	}
	_, features, _, err := matrixDims(c)
	if err != nil {
		return err
	}
	if n, ok := features.Int(); ok {
		if err := m.fit(c.Call, n); err != nil {
			return err
		}
	}
	return inferClasses(c, m.labels, op.Known(m.scores()))
}

func evalSVMClassifier(c *op.Eval) error {
	m, err := readVectorClassifier(c.Call)
	if err != nil {
		return err
	}
	x, rows, err := svmInput(c, &m.svm)
	if err != nil {
		return err
	}
	y, z, err := classOutputs(c, m.labels, rows, m.scores())
	if err != nil {
		return err
	}
	w := m.work()
	for r := range rows {
		out := w.scores
		if z != nil {
			out = z[r*m.scores() : (r+1)*m.scores()]
		}
		m.labels.put(y, r, m.classify(w, out, x[r*m.features:(r+1)*m.features]))
	}
	return nil
}

// svmWork is scratch memory for one row.
type svmWork struct {
	kernels, pairs, scores []float32
	votes                  []int64
	coupling               *coupling
}

func (m *svmClassifier) work() *svmWork {
	w := &svmWork{kernels: make([]float32, m.count), scores: make([]float32, m.scores())}
	if m.votes() {
		w.pairs, w.votes = make([]float32, m.pairs()), make([]int64, m.labels.len())
	}
	if m.estimates() {
		w.coupling = newCoupling(m.labels.len())
	}
	return w
}

// classify writes the scores of one row and returns its class.
func (m *svmClassifier) classify(w *svmWork, out, x []float32) int {
	if !m.votes() {
		return m.classifyLinear(out, x)
	}
	m.vote(w, x)
	class := firstMax(w.votes)
	switch {
	case m.estimates():
		w.coupling.estimate(out, w.pairs, m.a, m.b)
		applyPost(m.post, out)
	case len(w.pairs) > 1:
		copy(out, w.pairs)
		applyPost(m.post, out)
	case m.post == postNone:
		out[0], out[1] = m.post.expand(w.pairs[0], secondNegative)
	default:
		out[0], out[1] = m.post.expand(w.pairs[0], secondComplement)
	}
	return class
}

// classifyLinear is classify without support vectors. Of two classes the second wins by its highest
// score being positive, or at least a half when no coefficient is negative, as in ONNX Runtime.
func (m *svmClassifier) classifyLinear(out, x []float32) int {
	for k := range out {
		out[k] = m.kernel.of(x, m.coefficients[k*m.features:(k+1)*m.features]) + m.rho[0]
	}
	class := firstMax(out)
	if len(out) == 2 && (m.signed && out[class] > 0 || !m.signed && out[class] >= 0.5) {
		class = 1
	}
	applyPost(m.post, out)
	return class
}

// vote sets the results of all pairs of classes, in the order 0-1, 0-2, …, 1-2, …, and the votes.
func (m *svmClassifier) vote(w *svmWork, x []float32) {
	m.kernels(w.kernels, x)
	clear(w.votes)
	n, p := m.labels.len(), 0
	for i := range n {
		for j := i + 1; j < n; j++ {
			sum := float64(m.rho[p])
			sum += innerProduct(w.kernels[m.first[i]:m.first[i+1]],
				m.coefficients[(j-1)*m.count+m.first[i]:])
			sum += innerProduct(w.kernels[m.first[j]:m.first[j+1]],
				m.coefficients[i*m.count+m.first[j]:])
			w.pairs[p] = float32(sum)
			if sum > 0 {
				w.votes[i]++
			} else {
				w.votes[j]++
			}
			p++
		}
	}
}

// coupling estimates the probabilities of classes from those of pairs of classes: Wu, Lin and Weng,
// "Probability estimates for multi-class classification by pairwise coupling" (2004), the second
// method, algorithm 2, as in libsvm.
type coupling struct {
	n        int
	r, q, qp []float32 // of pairs: the estimate that i is right and not j, and the quadratic form
}

func newCoupling(n int) *coupling {
	return &coupling{n, make([]float32, n*n), make([]float32, n*n), make([]float32, n)}
}

// estimate sets p from the decision values of the pairs and the parameters of their sigmoids
// (Platt's).
func (c *coupling) estimate(p, pairs, a, b []float32) {
	const least = 1e-7
	k := 0
	for i := range c.n {
		for j := i + 1; j < c.n; j++ {
			r := 1 - logistic(pairs[k]*a[k]+b[k])
			r = min(max(r, least), 1-least)
			c.r[i*c.n+j], c.r[j*c.n+i] = r, 1-r
			k++
		}
	}
	c.form()
	for i := range p {
		p[i] = 1 / float32(c.n)
	}
	for range 100 {
		total := c.products(p)
		if c.error(total) < 0.005/float32(c.n) {
			break
		}
		c.improve(p, total)
	}
}

// form sets the quadratic form Q.
func (c *coupling) form() {
	for i := range c.n {
		diagonal := float32(0)
		for j := range c.n {
			if j == i {
				continue
			}
			rji := c.r[j*c.n+i]
			diagonal += rji * rji
			c.q[i*c.n+j] = -rji * c.r[i*c.n+j]
		}
		c.q[i*c.n+i] = diagonal
	}
}

// products sets Qp and returns pᵀQp.
func (c *coupling) products(p []float32) float32 {
	total := float32(0)
	for i := range c.n {
		c.qp[i] = 0
		for j := range c.n {
			c.qp[i] += c.q[i*c.n+j] * p[j]
		}
		total += p[i] * c.qp[i]
	}
	return total
}

// error returns how far the optimality condition Qp = pᵀQp is from being met.
func (c *coupling) error(total float32) float32 {
	worst := float32(0)
	for _, v := range c.qp {
		if e := abs32(v - total); e > worst {
			worst = e
		}
	}
	return worst
}

// improve solves for one p after the other.
func (c *coupling) improve(p []float32, total float32) {
	for i := range c.n {
		q := c.q[i*c.n+i]
		d := (total - c.qp[i]) / q
		p[i] += d
		total = (total + d*(d*q+2*c.qp[i])) / (1 + d) / (1 + d)
		for j := range c.n {
			c.qp[j] = (c.qp[j] + d*c.q[i*c.n+j]) / (1 + d)
			p[j] /= 1 + d
		}
	}
}
