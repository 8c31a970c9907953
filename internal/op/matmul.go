package op

import (
	"fmt"
	"slices"

	"github.com/weirgpu/weir/internal/refmath"
	"github.com/weirgpu/weir/tensor"
)

// matmul holds the dense linear algebra operators. Products are summed in float64, or in 64-bit
// integers that wrap.
var matmul = []Op{
	{Name: "MatMul", Since: []int{1, 9, 13}, MinIn: 2, MaxIn: 2, Infer: inferMatMul,
		Eval:  InFloat32(evalMatMul),
		Flops: matMulFlops, grad: gradMatMul},
	{Name: "Gemm", Since: []int{7, 9, 11, 13}, MinIn: 2, MaxIn: 3, Infer: inferGemm,
		Eval:  InFloat32(evalGemm),
		Flops: gemmFlops, grad: gradGemm},
}

var productTypes = floatTypes | SetOf(tensor.Int32, tensor.Int64, tensor.Uint32, tensor.Uint64)

// inferMatMul is the rule of numpy.matmul: the last two dimensions multiply, those before
// broadcast, and a vector is a row on the left and a column on the right.
func inferMatMul(c *Infer) error {
	d, err := c.SameDType(productTypes, c.DTypes()...)
	if err != nil {
		return err
	}
	return c.matMulOut(d)
}

func (c *Infer) matMulOut(d tensor.DType) error { return c.matMulOutOf(d, c.In[0], c.In[1]) }

func (c *Infer) matMulOutOf(d tensor.DType, a, b Type) error {
	if !a.Ranked || !b.Ranked {
		c.Out[0] = Unranked(d)
		return nil
	}
	if len(a.Shape) == 0 || len(b.Shape) == 0 {
		return c.Errorf(ErrInput, "%v × %v: a scalar has no matrix product", a, b)
	}
	inner := len(b.Shape) - 2
	ka, kb := a.Shape[len(a.Shape)-1], b.Shape[max(inner, 0)]
	if !ka.MayEqual(kb) {
		return c.Errorf(ErrInput, "%v × %v: inner dimensions %v and %v differ", a, b, ka, kb)
	}
	out, err := BroadcastDims(a.Shape[:max(len(a.Shape)-2, 0)], b.Shape[:max(inner, 0)])
	if err != nil {
		return fmt.Errorf("%s: %w", c.Name(), err)
	}
	if len(a.Shape) > 1 {
		out = append(out, a.Shape[len(a.Shape)-2])
	}
	if len(b.Shape) > 1 {
		out = append(out, b.Shape[len(b.Shape)-1])
	}
	c.Out[0] = Ranked(d, out...)
	return nil
}

// matrices is a product of stacks of matrices: for each place of the walk, m×k times k×n.
type matrices struct {
	m, k, n int
	shape   []int // of the output
	w       walk  // over the stack, in matrices of a, b
}

// matMulShapes checks the operands of numpy.matmul and lays out the product.
func (c *Call) matMulShapes(a, b []int) (p matrices, err error) {
	if len(a) == 0 || len(b) == 0 {
		return p, c.Errorf(ErrInput, "%v × %v: a scalar has no matrix product", a, b)
	}
	as, bs := a, b
	if len(a) == 1 {
		as = []int{1, a[0]}
	}
	if len(b) == 1 {
		bs = []int{b[0], 1}
	}
	p.m, p.k, p.n = as[len(as)-2], as[len(as)-1], bs[len(bs)-1]
	if bs[len(bs)-2] != p.k {
		return p, c.Errorf(ErrInput, "%v × %v: inner dimensions %d and %d differ", a, b, p.k,
			bs[len(bs)-2])
	}
	stack, err := BroadcastShapes(as[:len(as)-2], bs[:len(bs)-2])
	if err != nil {
		return p, fmt.Errorf("%s: %w", c.Name(), err)
	}
	p.w = broadcastWalk(stack, as[:len(as)-2], bs[:len(bs)-2])
	p.shape = stack
	if len(a) > 1 {
		p.shape = append(p.shape, p.m)
	}
	if len(b) > 1 {
		p.shape = append(p.shape, p.n)
	}
	return p, nil
}

func evalMatMul(c *Eval) error {
	d, err := c.SameDType(productTypes, c.DTypes()...)
	if err != nil {
		return err
	}
	p, err := c.matMulShapes(c.In[0].Shape, c.In[1].Shape)
	if err != nil {
		return err
	}
	out, err := c.Output(0, d, p.shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	loopsOf[d].multiply(out, c.In[0], c.In[1], p)
	return nil
}

func (*loopsOn[T, W]) multiply(out, at, bt *tensor.Tensor, p matrices) {
	o, a, b := tensor.As[T](out), tensor.As[T](at), tensor.As[T](bt)
	acc := make([]W, p.n)
	p.w.runs(func(at, n int, off, step []int) {
		for s := range n {
			am := a[(off[0]+s*step[0])*p.m*p.k:]
			bm := b[(off[1]+s*step[1])*p.k*p.n:]
			om := o[(at+s)*p.m*p.n:]
			for i := range p.m {
				clear(acc)
				refmath.AddProduct(acc, am[i*p.k:], 1, bm, p.k, p.n)
				narrowRow(om[i*p.n:], acc)
			}
		}
	})
}

func matMulFlops(_ *Call, in, out []Type) int64 {
	if len(in[0].Shape) == 0 {
		return 0
	}
	k, _ := in[0].Shape[len(in[0].Shape)-1].Int()
	return 2 * int64(k) * out[0].Elements()
}

// gemmDims returns the m, k and n of op(A)·op(B).
func gemmDims[D any](c *Call, a, b []D) (m, ka, kb, n D, err error) {
	if len(a) != 2 || len(b) != 2 {
		return m, ka, kb, n, c.Errorf(ErrInput, "A %v and B %v must be matrices", a, b)
	}
	m, ka, kb, n = a[0], a[1], b[0], b[1]
	if c.Attrs.Bool("transA", false) {
		m, ka = ka, m
	}
	if c.Attrs.Bool("transB", false) {
		kb, n = n, kb
	}
	return m, ka, kb, n, nil
}

func inferGemm(c *Infer) error {
	d, err := c.SameDType(productTypes, c.DTypes()...)
	if err != nil {
		return err
	}
	a, b := c.In[0], c.In[1]
	if !a.Ranked || !b.Ranked {
		c.Out[0] = Ranked(d, Unknown(), Unknown())
		return nil
	}
	m, ka, kb, n, err := gemmDims(c.Call, a.Shape, b.Shape)
	if err != nil {
		return err
	}
	if !ka.MayEqual(kb) {
		return c.Errorf(ErrInput, "%v · %v: inner dimensions %v and %v differ", a, b, ka, kb)
	}
	c.Out[0] = Ranked(d, m, n)
	if c.Has(2) && c.In[2].Ranked {
		if to, err := BroadcastDims(c.Out[0].Shape, c.In[2].Shape); err != nil || len(to) > 2 {
			return c.Errorf(ErrInput, "C %v does not broadcast to %v", c.In[2], c.Out[0])
		}
	}
	return nil
}

// evalGemm computes alpha · op(A) · op(B) + beta · C, where op transposes when asked to and C
// broadcasts to the result.
func evalGemm(c *Eval) error {
	d, err := c.SameDType(productTypes, c.DTypes()...)
	if err != nil {
		return err
	}
	m, ka, kb, n, err := gemmDims(c.Call, c.In[0].Shape, c.In[1].Shape)
	if err != nil {
		return err
	}
	if ka != kb {
		return c.Errorf(ErrInput, "A %v and B %v: inner dimensions %d and %d differ", c.In[0].Shape,
			c.In[1].Shape, ka, kb)
	}
	shape := []int{m, n}
	if c.Has(2) {
		if to, err := BroadcastShapes(shape, c.In[2].Shape); err != nil ||
			!slices.Equal(to, shape) {
			return c.Errorf(ErrInput, "C %v does not broadcast to %v", c.In[2].Shape, shape)
		}
	}
	out, err := c.Output(0, d, shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	loopsOf[d].gemm(c, out, m, ka, n)
	return nil
}

func (*loopsOn[T, W]) gemm(c *Eval, out *tensor.Tensor, m, k, n int) {
	o, a, b := tensor.As[T](out), tensor.As[T](c.In[0]), tensor.As[T](c.In[1])
	alpha, beta := W(c.attr("alpha", 1)), W(c.attr("beta", 1))
	if c.Attrs.Bool("transB", false) {
		b = Transposed(b, n, k)
	}
	row, step := k, 1
	if c.Attrs.Bool("transA", false) {
		row, step = 1, m
	}
	acc := make([]W, n)
	for i := range m {
		clear(acc)
		if k > 0 {
			refmath.AddProduct(acc, a[i*row:], step, b, k, n)
		}
		for j, v := range acc {
			acc[j] = alpha * v
		}
		if c.Has(2) {
			addRow(acc, c.In[2], []int{m, n}, i, beta, tensor.As[T](c.In[2]))
		}
		narrowRow(o[i*n:], acc)
	}
}

// narrowRow stores sums as elements.
func narrowRow[T number, W wide](out []T, acc []W) {
	for j, v := range acc {
		out[j] = T(v)
	}
}

// addRow adds beta times row i of bias, broadcast to shape, to acc.
func addRow[T number, W wide](acc []W, t *tensor.Tensor, shape []int, i int, beta W, bias []T) {
	st := broadcastStrides(t.Shape, shape)
	for j := range acc {
		acc[j] += beta * W(bias[i*st[0]+j*st[1]])
	}
}

// Transposed returns the transpose of a rows×cols matrix, in a new slice: some columns at a time,
// so that what is written to stays in a cache from row to row.
func Transposed[T any](v []T, rows, cols int) []T {
	const some = 16
	t := make([]T, len(v))
	for from := 0; from < cols; from += some {
		to := min(from+some, cols)
		for i := range rows {
			for j, x := range v[i*cols:][from:to] {
				t[(from+j)*rows+i] = x
			}
		}
	}
	return t
}

func gemmFlops(c *Call, in, out []Type) int64 {
	if len(in[0].Shape) != 2 {
		return 0
	}
	k := in[0].Shape[1]
	if c.Attrs.Bool("transA", false) {
		k = in[0].Shape[0]
	}
	n, _ := k.Int()
	return 2 * int64(n) * out[0].Elements()
}
