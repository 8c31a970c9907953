package op

// Boundary is the operator between two models that are joined to one: its output is its input. No
// pass knows it, so that what is before it and what is behind it is computed as it is alone, bit
// for bit; a planner has both share their bytes. Attribute dims says what the second model declares
// of the value: a size for each dimension, -1 for any. A value of another shape is refused, as that
// model refuses it alone.
const Boundary = "Boundary"

// boundaryOps are impure, so that what is behind them is never computed beforehand, by other means
// than the second model's own kernels.
var boundaryOps = []Op{{Domain: FusedDomain, Name: Boundary, Since: []int{1}, MinIn: 1, MaxIn: 1,
	Traits: Impure | View | Containers, Infer: inferBoundary, Eval: evalBoundary,
	grad: gradIdentity}}

func inferBoundary(c *Infer) error {
	in := c.In[0]
	c.Out[0] = in.withoutContents()
	if !in.Ranked || in.DType.IsContainer() {
		return nil
	}
	shape := make([]int, len(in.Shape))
	for i, d := range in.Shape {
		shape[i] = -1
		if n, ok := d.Int(); ok {
			shape[i] = n
		}
	}
	return c.within(shape)
}

func evalBoundary(c *Eval) error {
	if !c.In[0].DType.IsContainer() {
		if err := c.within(c.In[0].Shape); err != nil {
			return err
		}
	}
	return evalIdentity(c)
}

// within holds a shape, of which -1 is not known, against attribute dims.
func (c *Call) within(shape []int) error {
	if !c.Attrs.Has("dims") {
		return nil
	}
	dims := c.Attrs.Ints("dims")
	fits := len(dims) == len(shape)
	for i := 0; fits && i < len(dims); i++ {
		fits = dims[i] < 0 || shape[i] < 0 || int(dims[i]) == shape[i]
	}
	if !fits && !(len(dims) == 0 && isOneElement(shape)) {
		return c.Errorf(ErrInput, "a value has the shape %v, and the model that reads it takes %v",
			shape, dims)
	}
	return nil
}
