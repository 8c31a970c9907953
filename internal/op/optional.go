package op

import "github.com/weirgpu/weir/tensor"

// optionalOps wrap values that may be missing. Since version 18 the two that read an optional take
// a plain tensor or sequence too, which is an optional with that value; earlier models that do so
// can mean nothing else.
var optionalOps = []Op{
	{Name: "Optional", Since: []int{15, 28}, MinIn: 0, MaxIn: 1, Traits: Containers,
		Infer: inferOptional, Eval: evalOptional},
	{Name: "OptionalHasElement", Since: []int{15, 18, 28}, MinIn: 0, MaxIn: 1, Traits: Containers,
		Infer: inferHasElement, Eval: evalHasElement},
	{Name: "OptionalGetElement", Since: []int{15, 18, 28}, MinIn: 1, MaxIn: 1, Traits: Containers,
		Infer: inferGetElement, Eval: evalGetElement},
}

// emptyType is the type, given by the attribute, of what an Optional without a value could hold.
func emptyType(c *Call) (Type, error) {
	t := c.Attrs.Type("type")
	if !c.Attrs.Has("type") {
		return t, c.Errorf(ErrAttr, "has neither a value nor a type")
	}
	return t, notOptional(c, t.DType)
}

// notOptional refuses optionals of optionals, which ONNX does not have.
func notOptional(c *Call, d tensor.DType) error {
	if d == tensor.Optional {
		return c.Errorf(ErrInput, "an optional of an optional: wants a tensor or a sequence")
	}
	return nil
}

func inferOptional(c *Infer) error {
	t, err := Type{}, error(nil)
	if c.Has(0) {
		t = c.In[0].withoutContents()
		err = notOptional(c.Call, t.DType)
	} else {
		t, err = emptyType(c.Call)
	}
	c.Out[0] = OptionalOf(t)
	return err
}

func evalOptional(c *Eval) error {
	if !c.Has(0) {
		c.Out[0] = tensor.NewOptional(nil)
		_, err := emptyType(c.Call)
		return err
	}
	c.Out[0] = tensor.NewOptional(c.In[0])
	return notOptional(c.Call, c.In[0].DType)
}

func inferHasElement(c *Infer) error {
	c.Out[0] = Ranked(tensor.Bool)
	switch {
	case !c.Has(0):
		c.Out[0].Elems = []Dim{Known(0)}
	case c.In[0].DType != tensor.Optional && c.In[0].DType != tensor.Undefined:
		c.Out[0].Elems = []Dim{Known(1)}
	}
	return nil
}

func evalHasElement(c *Eval) error {
	out, err := c.Output(0, tensor.Bool, []int{})
	if err != nil {
		return err
	}
	tensor.As[bool](out)[0] = c.Has(0) &&
		(c.In[0].DType != tensor.Optional || len(c.In[0].Items) > 0)
	return nil
}

func inferGetElement(c *Infer) error {
	if c.Out[0] = c.In[0].withoutContents(); c.In[0].DType == tensor.Optional {
		c.Out[0] = c.In[0].Item()
	}
	return nil
}

func evalGetElement(c *Eval) error {
	v := c.In[0]
	if v.DType != tensor.Optional {
		c.Out[0] = v
		return nil
	}
	if len(v.Items) == 0 {
		return c.Errorf(ErrInput, "the optional holds no value")
	}
	c.Out[0] = v.Items[0]
	return nil
}
