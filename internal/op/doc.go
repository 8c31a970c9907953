// Package op is the contract of every operator: which inputs it takes, what shapes come out, and
// what it computes.
//
// Meet first: [Op] is one row of the operator table (name, versions, shape rule, evaluation),
// [Call] is one use of an operator with its attributes, and [Type] is what is known of a value
// before it is computed, with symbolic dimensions ([Dim]). [Lookup] finds a row.
//
// The evaluation of a row is the definition: plain Go that reads like the ONNX text. Every fast
// kernel is tested against it, and whatever has no fast kernel runs it.
//
// Adding an operator is one evaluation function, one shape rule (many share one) and one row in the
// table of the file of its family; see docs/recipes.
//
// Operators take tensors unless their row has the trait [Containers]: then sequences, optionals and
// maps, too. Such values are never changed, so that one made from another may share its items.
//
// Compositions: most operators of ONNX Runtime's domain (package internal/op/microsoft) are defined
// as calls of others; [Op.Expand] writes them, and rule and evaluation are those of the parts.
//
// Domains: this package has the operators of ONNX and of weir. Those of other domains have packages
// of their own below this one, which add their rows with [Register]; package graph imports them
// all. What their authors use beside [Op], [Infer] and [Eval] is: type sets ([SetOf],
// [Call.SameDType]), operands as numbers ([Eval.Ints], [Eval.Floats]), outputs ([Eval.OutputLike],
// [Eval.ZeroOutput]), [InFloat32] for half types, and [Composition] with its [Expander].
//
// Sub-graphs: an operator such as If holds its branches as attributes of type [Body]. A body is
// closed: the values that it uses from outside are explicit trailing inputs of the call
// ([Call.Captures] of them), and every body of the call takes its own formal inputs followed by all
// of these captures.
//
// Concurrency: rows are immutable, rules and evaluations are pure functions of their context;
// contexts are used by one goroutine.
//
// What it refuses: shape rules never allocate by a dimension that they have not checked, and
// neither rules nor evaluations panic on bad input; they return errors of kind [ErrInput],
// [ErrAttr], [ErrUnsupported] or tensor.ErrShape.
package op
