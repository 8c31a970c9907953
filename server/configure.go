package server

import (
	"fmt"
	"slices"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

// This file holds a model's configuration against the model: what the configuration says must be
// what holds, and what weir cannot heed keeps the model from being served, with the reason.

// view is an input or output as clients see it and as the model has it; -1 is of any size. The
// first dimension is that of the batch where the configuration has one.
type view struct{ client, model []int64 }

// reshaped reports whether the two differ.
func (w *view) reshaped() bool { return w != nil && !slices.Equal(w.client, w.model) }

// configure holds the version's configuration against its model, and describes the version as the
// configuration has it.
func (v *version) configure() error {
	c := v.source.Config
	if c == nil {
		return nil
	}
	if err := heeded(c, v.name); err != nil {
		return fmt.Errorf("%w: configuration: %w", weir.ErrUnsupported, err)
	}
	if err := v.inSequences(c.SequenceBatching); err != nil {
		return err
	}
	v.decoupled = v.decoupled || c.TransactionPolicy != nil && c.TransactionPolicy.Decoupled
	if err := v.cacheable(); err != nil {
		return err
	}
	v.views = map[string]*view{}
	inputs, err := v.items(c.Input, v.metadata.Inputs, "input")
	if err != nil {
		return err
	}
	if len(c.Input) > 0 {
		for _, f := range v.metadata.Inputs {
			if v.views[f.Name] == nil && !v.keeps(f.Name) {
				return fmt.Errorf("configuration: the model's input %s is missing", f.Name)
			}
		}
	}
	outputs, err := v.items(c.Output, v.metadata.Outputs, "output")
	if err != nil {
		return err
	}
	v.metadata.Inputs, v.metadata.Outputs = inputs, outputs
	v.types = slices.Clone(v.types)
	for i := range v.types {
		if w := v.views[v.types[i].Name]; w != nil {
			v.types[i].Shape = w.model
		}
	}
	for name := range v.outputs {
		if !v.keeps(name) && !slices.ContainsFunc(outputs,
			func(f oip.TensorFields) bool { return f.Name == name }) {
			delete(v.outputs, name)
		}
	}
	if c.Platform != "" {
		v.metadata.Platform = c.Platform
	}
	if len(c.Input)+len(c.Output) == 0 && c.MaxBatchSize > 0 {
		for _, f := range slices.Concat(inputs, outputs) {
			if len(f.Shape) == 0 || f.Shape[0] >= 0 {
				return fmt.Errorf("configuration: max_batch_size is %d, and the first dimension "+
					"of %s is not open: give 0", c.MaxBatchSize, f.Name)
			}
		}
	}
	return nil
}

// The platforms and backends that stand for ONNX models; "" does too.
var (
	platforms = []string{"", "onnx_onnxv1", "onnxruntime_onnx", ensemblePlatform}
	backends  = []string{"", "weir", "onnxruntime"}
)

// heeded reports what a configuration asks for that weir does not do.
func heeded(c *oip.Config, name string) error {
	for _, no := range []struct {
		is  bool
		why string
	}{
		{c.Name != "" && c.Name != name, fmt.Sprintf("name is %.100q: the folder is called %s",
			c.Name, name)},
		{!slices.Contains(platforms, c.Platform), fmt.Sprintf("platform is %.100q: weir computes "+
			"ONNX models: give onnxruntime_onnx, or leave it out", c.Platform)},
		{!slices.Contains(backends, c.Backend), fmt.Sprintf("backend is %.100q: weir computes "+
			"ONNX models: give onnxruntime, or leave it out", c.Backend)},
		{c.MaxBatchSize < 0, fmt.Sprintf("max_batch_size is %d: give 0 or more", c.MaxBatchSize)},
		{(c.EnsembleScheduling != nil) != (c.Platform == ensemblePlatform), "ensemble_scheduling " +
			"and platform: \"ensemble\" need each other"},
		{c.BatchInput != nil || c.BatchOutput != nil, "batch_input, batch_output: inputs that " +
			"tell of the batch are not made"},
		{c.ModelOperations != nil, "model_operations: weir loads no libraries of operators"},
		{c.ModelRepositoryAgents != nil, "model_repository_agents: weir has no agents"},
	} {
		if no.is {
			return fmt.Errorf("%s", no.why)
		}
	}
	return heededQueue(c)
}

// heededQueue is heeded for how requests wait.
func heededQueue(c *oip.Config) error {
	d := c.DynamicBatching
	if d == nil {
		return nil
	}
	q := d.DefaultQueuePolicy
	for _, no := range []struct {
		is  bool
		why string
	}{
		{c.MaxBatchSize == 0, "dynamic_batching needs a max_batch_size above 0"},
		{q.TimeoutAction != "" && q.TimeoutAction != "REJECT", "default_queue_policy: " +
			"timeout_action is " + q.TimeoutAction + ": requests that are late are refused: give " +
			"REJECT"},
		{d.PreserveOrdering, "preserve_ordering: requests are ordered by their accounts, " +
			"priorities and deadlines"},
		{d.PriorityQueuePolicy != nil, "priority_queue_policy: one policy holds for all levels: " +
			"give default_queue_policy"},
		{d.PriorityLevels > mostLevels, fmt.Sprintf("priority_levels is %d: give at most %d",
			d.PriorityLevels, mostLevels)},
		{d.DefaultPriorityLevel > d.PriorityLevels || d.PriorityLevels > 0 &&
			d.DefaultPriorityLevel == 0, fmt.Sprintf("default_priority_level is %d: give 1 to "+
			"priority_levels, %d", d.DefaultPriorityLevel, d.PriorityLevels)},
		{d.MaxQueueDelayMicroseconds > longestDelay.Microseconds(), fmt.Sprintf(
			"max_queue_delay_microseconds is %d: give at most %v", d.MaxQueueDelayMicroseconds,
			longestDelay)},
	} {
		if no.is {
			return fmt.Errorf("%s", no.why)
		}
	}
	for _, n := range d.PreferredBatchSize {
		if n < 1 || n > c.MaxBatchSize {
			return fmt.Errorf("preferred_batch_size has %d: give 1 to max_batch_size, %d", n,
				c.MaxBatchSize)
		}
	}
	return nil
}

// The bounds of a queue's configuration.
const (
	mostLevels   = 1 << 10
	longestDelay = time.Minute
)

// items holds the inputs or outputs of a configuration against those of the model, and returns them
// as clients see them: those of the model where the configuration names none.
func (v *version) items(items []oip.ConfigItem, has []oip.TensorFields, kind string) (
	[]oip.TensorFields, error) {
	if len(items) == 0 {
		return has, nil
	}
	var list []oip.TensorFields
	for i := range items {
		item := &items[i]
		at := slices.IndexFunc(has, func(f oip.TensorFields) bool { return f.Name == item.Name })
		if at < 0 {
			return nil, fmt.Errorf("configuration: the model has no %s %.200q", kind, item.Name)
		}
		if v.views[item.Name] != nil {
			return nil, fmt.Errorf("configuration: %s %s is given twice", kind, item.Name)
		}
		w, err := viewed(item, &has[at], v.source.Config.MaxBatchSize > 0)
		if err != nil {
			return nil, fmt.Errorf("configuration: %s %s: %w", kind, item.Name, err)
		}
		v.views[item.Name] = w
		f := has[at]
		f.Shape = w.client
		list = append(list, f)
	}
	return list, nil
}

// viewed holds an input or output of a configuration against the model's.
func viewed(item *oip.ConfigItem, has *oip.TensorFields, batch bool) (*view, error) {
	switch {
	case item.DataType != configType(has.Datatype):
		return nil, fmt.Errorf("data_type is %.40s: the model has %s", item.DataType,
			configType(has.Datatype))
	case item.Optional:
		return nil, fmt.Errorf("optional: every input of an ONNX model must be given")
	case item.AllowRaggedBatch || item.IsShapeTensor || item.NonLinearFormat:
		return nil, fmt.Errorf("allow_ragged_batch, is_shape_tensor, is_non_linear_format_io: " +
			"these are not supported")
	}
	w := &view{client: item.Dims, model: item.Dims}
	if item.Reshape != nil {
		w.model = item.Reshape.Shape
		if !matches(item.Dims, w.model) {
			return nil, fmt.Errorf("reshape: %v cannot become %v: both must have the same number "+
				"of elements, and as many dimensions of any size", item.Dims, w.model)
		}
	}
	for _, d := range slices.Concat(w.client, w.model) {
		if d < -1 || d == 0 {
			return nil, fmt.Errorf("dims has %d: give sizes from 1 on, or -1 for any", d)
		}
	}
	if batch {
		any := []int64{-1}
		w.client, w.model = slices.Concat(any, w.client), slices.Concat(any, w.model)
	}
	fits := len(w.model) == len(has.Shape)
	for i := range w.model {
		fits = fits && (has.Shape[i] < 0 || has.Shape[i] == w.model[i])
	}
	if !fits && batch {
		return nil, fmt.Errorf("dims with max_batch_size are %v: the model has %v", w.model,
			has.Shape)
	}
	if !fits {
		return nil, fmt.Errorf("dims are %v: the model has %v", w.model, has.Shape)
	}
	return w, nil
}

// matches reports whether tensors of one shape can have the other: those of any size keep their
// order, and the others as many elements.
func matches(a, b []int64) bool {
	count := func(shape []int64) (open int, n int64) {
		n = 1
		for _, d := range shape {
			if d < 0 {
				open++
				continue
			}
			if d > 0 && n > 1<<40/d {
				return -1, 0
			}
			n *= d
		}
		return open, n
	}
	openA, nA := count(a)
	openB, nB := count(b)
	return openA >= 0 && openA == openB && nA == nB
}

// configType is a datatype as configurations call it, which have no TYPE_BYTES.
func configType(datatype string) string {
	if datatype == "BYTES" {
		return "TYPE_STRING"
	}
	return "TYPE_" + datatype
}

// given returns an input as the model has it, or why it is not as the configuration has it.
func (v *version) given(name string, t *tensor.Tensor) (*tensor.Tensor, error) {
	w := v.views[name]
	if w == nil {
		return t, nil
	}
	fits := len(t.Shape) == len(w.client)
	for i, d := range w.client {
		fits = fits && (d < 0 || d == int64(t.Shape[i]))
	}
	if !fits {
		return nil, fmt.Errorf("%w: model %s: input %s has the shape %v, and %v is taken",
			oip.ErrRequest, v.name, name, t.Shape, w.client)
	}
	if most := v.source.Config.MaxBatchSize; most > 0 && int64(t.Shape[0]) > most {
		return nil, fmt.Errorf("%w: model %s: input %s has %d rows, and a request may have %d: "+
			"send several", oip.ErrRequest, v.name, name, t.Shape[0], most)
	}
	return formed(t, w.client, w.model), nil
}

// formed is a tensor that has one shape with the other in its place.
func formed(t *tensor.Tensor, from, to []int64) *tensor.Tensor {
	if slices.Equal(from, to) {
		return t
	}
	var open []int
	for i, d := range from {
		if d < 0 {
			open = append(open, t.Shape[i])
		}
	}
	shape := make([]int, len(to))
	for i, d := range to {
		if shape[i] = int(d); d < 0 {
			shape[i], open = open[0], open[1:]
		}
	}
	return &tensor.Tensor{DType: t.DType, Shape: shape, Data: t.Data, Strings: t.Strings}
}

// taken returns an output as clients see it.
func (v *version) taken(name string, t *tensor.Tensor) *tensor.Tensor {
	w := v.views[name]
	if !w.reshaped() || len(t.Shape) != len(w.model) {
		return t
	}
	return formed(t, w.model, w.client)
}

// dynamic is how the configuration has requests put together; nil where it leaves that open.
func (v *version) dynamic() *oip.DynamicBatching {
	if v.source.Config == nil {
		return nil
	}
	return v.source.Config.DynamicBatching
}

// rowsAtMost is how many rows a batch may have.
func (v *version) rowsAtMost() int {
	most := int64(v.server.o.Batch)
	if c := v.source.Config; c != nil && c.MaxBatchSize > 0 {
		if most = min(most, c.MaxBatchSize); c.DynamicBatching != nil {
			most = c.MaxBatchSize
		}
	}
	return int(most)
}
