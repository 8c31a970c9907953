package weir

import (
	"fmt"
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/fault"
	operators "github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/op"
)

// Operator is an operator of one's own: what nodes of a model compute that weir has no operator
// for. See [WithOperators].
//
//	weir.Operator{
//		Domain: "com.example", Name: "Double", Inputs: 1,
//		Eval: func(c *op.Eval) error {
//			x, err := tensor.Elements[float32](c.In[0])
//			if err != nil {
//				return err
//			}
//			y, err := c.Output(0, tensor.Float32, c.In[0].Shape)
//			if err != nil {
//				return err
//			}
//			for i, out := 0, tensor.As[float32](y); i < len(x); i++ {
//				out[i] = 2 * x[i]
//			}
//			return nil
//		},
//	}
type Operator struct {
	// Domain and Name are those of the nodes. weir must not have an operator of that name in the
	// domain, where "" is ONNX's own.
	Domain, Name string
	// Version is the first version of the domain's operator set of which this is the operator; 0
	// stands for 1. Of several operators of one name, a model gets the newest that is no newer than
	// the version which it imports.
	Version int
	// Inputs is the number of inputs, of which the last Optional ones may be left out; -1 stands
	// for any number. Outputs is the number of outputs; 0 stands for 1.
	Inputs, Optional, Outputs int
	// Random tells that results differ from call to call with the same inputs. Others may be
	// computed once, when the model is compiled, where all inputs are constants.
	Random bool
	// Infer is the shape rule: it sets what can be known of each output (c.Out) from what is known
	// of the inputs (c.In), whose sizes may be symbols. It must not say what an evaluation does not
	// keep to. An output that it leaves alone is of a type and shape that only running tells. Nil
	// says that output 0 is of the type and shape of input 0.
	Infer func(c *op.Infer) error
	// Eval computes the outputs: it reads c.In, gets each output from c.Output and writes all its
	// elements. Errors of kinds op.ErrInput and tensor.ErrDType are the fault of what the operator
	// is given, and become errors of kind [ErrInput] or [ErrModel]; a panic becomes one of kind
	// [ErrFault]; others come out of [Model.Run] as they are. Several goroutines may call it.
	Eval func(c *op.Eval) error
	// Kernel, if not nil, is asked once for each node and set of shapes, all of which are known
	// then, for a faster way of computing: one that uses several cores ([compute.Exec]), allocates
	// nothing, or keeps a copy of constant operands in a form of its own. It returns nil, nil where
	// Eval is to serve.
	Kernel func(r *compute.Request) (compute.Kernel, error)
}

// WithOperators has the model's nodes of these operators computed as they say. Other models know
// nothing of them. Plans of a model that is opened so are not kept ([WithCache]), since what the
// operators compute may change without the model.
func WithOperators(ops ...Operator) Option {
	return func(c *config) {
		for i := range ops {
			if err := c.operator(&ops[i]); err != nil && c.err == nil {
				c.err = fmt.Errorf("%w: WithOperators: %w", ErrOption, err)
			}
		}
	}
}

// operator adds an operator.
func (c *config) operator(o *Operator) error {
	row, err := o.row()
	if err != nil {
		return err
	}
	name := (&op.Call{Domain: row.Domain, Type: row.Name}).Name()
	if _, err := operators.Lookup(row.Domain, row.Name, 0); err == nil {
		return fmt.Errorf("operator %s: weir has one of that name: choose another domain", name)
	}
	if slices.ContainsFunc(c.operators, func(p *operators.Op) bool {
		return p.Domain == row.Domain && p.Name == row.Name && p.Since[0] == row.Since[0]
	}) {
		return fmt.Errorf("operator %s, version %d: it is given twice", name, row.Since[0])
	}
	c.operators = append(c.operators, row)
	if o.Kernel != nil {
		if c.kernels == nil {
			c.kernels = map[*operators.Op]prepare{}
		}
		c.kernels[row] = o.Kernel
	}
	return nil
}

// prepare is the type of [Operator].Kernel.
type prepare = func(*compute.Request) (compute.Kernel, error)

// ownTarget is a target that has kernels of the caller's, too.
type ownTarget struct {
	compute.Target
	operators []*operators.Op
	kernels   map[*operators.Op]prepare
}

// Prepare implements [compute.Target]. A panic of the caller's code is an error.
func (t *ownTarget) Prepare(r *compute.Request) (k compute.Kernel, err error) {
	own := t.kernels[operators.Find(t.operators, r.Call.Domain, r.Call.Type, r.Call.Version)]
	if own == nil {
		return t.Target.Prepare(r)
	}
	if k, err = fault.Value(func() (compute.Kernel, error) { return own(r) }); err != nil {
		return nil, fmt.Errorf("kernel of operator %s: %w", r.Call.Name(), err)
	}
	return k, nil
}

// row is the operator as a row of internal/op.
func (o *Operator) row() (*operators.Op, error) {
	switch {
	case o.Name == "":
		return nil, fmt.Errorf("an operator of domain %q has no name", o.Domain)
	case o.Eval == nil:
		return nil, fmt.Errorf("operator %q has no Eval", o.Name)
	case o.Version < 0 || o.Inputs < -1 || o.Outputs < 0 || o.Optional < 0 ||
		o.Inputs >= 0 && o.Optional > o.Inputs || o.Infer == nil && o.Inputs == o.Optional:
		return nil, fmt.Errorf("operator %q: version %d, %d inputs, %d of them optional, and %d "+
			"outputs cannot be; without inputs it needs Infer", o.Name, o.Version, o.Inputs,
			o.Optional, o.Outputs)
	}
	row := &operators.Op{Domain: o.Domain, Name: o.Name, Since: []int{max(1, o.Version)},
		MinIn: max(0, o.Inputs-o.Optional), MaxIn: o.Inputs, Infer: o.infer(), Eval: o.eval()}
	row.MinOut, row.MaxOut = 1, max(1, o.Outputs)
	if row.Domain == "ai.onnx" {
		row.Domain = ""
	}
	if o.Random {
		row.Traits = operators.Impure
	}
	return row, nil
}

// eval is Eval, whose outputs are of as many bytes as they say: whoever reads them trusts that.
func (o *Operator) eval() func(*op.Eval) error {
	eval := o.Eval
	return func(c *op.Eval) error {
		if err := eval(c); err != nil {
			return err
		}
		if len(c.Out) < c.NumOut {
			return fmt.Errorf("%w: %s: Eval leaves %d outputs of %d", ErrFault, c.Name(),
				len(c.Out), c.NumOut)
		}
		for i, t := range c.Out {
			if t == nil {
				continue // which is an error where it is asked for
			}
			if err := t.Check(); err != nil {
				return fmt.Errorf("%w: %s: Eval sets output %d: %v", ErrFault, c.Name(), i, err)
			}
		}
		return nil
	}
}

// infer is Infer, which leaves as many outputs as there are.
func (o *Operator) infer() func(*op.Infer) error {
	infer := o.Infer
	if infer == nil {
		infer = sameAsInput
	}
	return func(c *op.Infer) error {
		n := len(c.Out)
		if err := infer(c); err != nil {
			return err
		}
		if len(c.Out) != n {
			return fmt.Errorf("%w: %s: Infer leaves %d outputs of %d", ErrFault, c.Name(),
				len(c.Out), n)
		}
		return nil
	}
}

// sameAsInput gives output 0 the type and shape of input 0.
func sameAsInput(c *op.Infer) error {
	c.Out[0] = op.Unranked(c.In[0].DType)
	if c.In[0].Ranked {
		c.Out[0] = op.Ranked(c.In[0].DType, c.In[0].Shape...)
	}
	return nil
}
