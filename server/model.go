package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/telemetry"
	"github.com/weirgpu/weir/tensor"
)

// model is a version of a model that is served.
type model struct {
	name, version string
	on            *weir.Model
	metadata      oip.Metadata
	inputs        map[string]weir.ValueInfo
	counts        *telemetry.Model
	job           *weir.Tenant

	under int // requests that were admitted and are not answered; under the server's mu
}

// Load admits m under the job's share, and answers requests for it from then on under j.Name and
// the version. It takes m over and closes it with the server. Where m cannot be compiled for
// j.Shapes, the first request decides for which. The error is that of Host.Admit, and of kind
// weir.ErrUnsupported where the protocol has no type for an input; m is then closed at once.
func (s *Server) Load(ctx context.Context, m *weir.Model, version int64, j weir.Job) error {
	d, err := describe(m, j.Name, strconv.FormatInt(version, 10))
	if err == nil {
		d.job, err = s.host.Admit(ctx, m, j)
		if j.Shapes != nil && (errors.Is(err, weir.ErrInput) || errors.Is(err, weir.ErrModel)) {
			j.Shapes = nil
			d.job, err = s.host.Admit(ctx, m, j)
		}
	}
	if err != nil {
		return errors.Join(fmt.Errorf("model %s: %w", j.Name, err), m.Close())
	}
	d.counts = s.rec.Model(d.name, d.version, j.Name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.models[j.Name] = d
	return nil
}

// Free returns what of the device's memory is not promised to models.
func (s *Server) Free() weir.Bytes {
	st := s.host.Status()
	return st.Memory - st.Promised
}

// describe reads from a model what its metadata say.
func describe(m *weir.Model, name, version string) (*model, error) {
	d := &model{name: name, version: version, on: m, inputs: map[string]weir.ValueInfo{}}
	d.metadata = oip.Metadata{Name: name, Versions: []string{version}, Platform: "onnx_onnxv1",
		Inputs: []oip.TensorFields{}, Outputs: []oip.TensorFields{}}
	for _, v := range m.Inputs() {
		f, ok := fields(v)
		if !ok {
			return nil, fmt.Errorf("%w: input %s is %v, which the inference protocol cannot carry",
				weir.ErrUnsupported, v.Name, v.Type)
		}
		d.inputs[v.Name] = v
		d.metadata.Inputs = append(d.metadata.Inputs, f)
	}
	for _, v := range m.Outputs() {
		if f, ok := fields(v); ok {
			d.metadata.Outputs = append(d.metadata.Outputs, f)
		}
	}
	return d, nil
}

// fields describes an input or output; ok is false where the protocol has no type for it.
func fields(v weir.ValueInfo) (f oip.TensorFields, ok bool) {
	f.Name = v.Name
	f.Datatype, ok = oip.Datatype(v.Type.DType)
	f.Shape = []int64{}
	for _, d := range v.Type.Shape {
		f.Shape = append(f.Shape, int64(d.Size))
	}
	return f, ok
}

// deadline ends ctx after a request's parameter timeout, in microseconds (Triton,
// extension_schedule_policy.md); 0 stands for none.
func deadline(ctx context.Context, p oip.Parameters) (context.Context, context.CancelFunc, error) {
	v, given := p["timeout"]
	us, ok := v.(int64)
	if given && (!ok || us < 0) {
		return nil, nil, fmt.Errorf("%w: timeout is %v: give whole microseconds, or 0 for none",
			oip.ErrRequest, v)
	}
	if us == 0 {
		return ctx, func() {}, nil
	}
	d := time.Duration(min(us, math.MaxInt64/1000)) * time.Microsecond
	ctx, cancel := context.WithTimeout(ctx, d)
	return ctx, cancel, nil
}

// wanted lists the outputs of an answer in order: that of the request, else that of the model.
func (m *model) wanted(r *oip.Request) []string {
	var names []string
	if r.Outputs != nil {
		for _, o := range r.Outputs {
			names = append(names, o.Name)
		}
		return names
	}
	for _, f := range m.metadata.Outputs {
		names = append(names, f.Name)
	}
	return names
}

func (m *model) has(output string) bool {
	for _, f := range m.metadata.Outputs {
		if f.Name == output {
			return true
		}
	}
	return false
}

// raw is the request whose body is nothing but the data of the model's one input
// (Inference-Header-Content-Length: 0): all its dimensions are known but one at most, or the first,
// which is 1 if others are not known either.
func (m *model) raw(body []byte) (*oip.Request, error) {
	if len(m.metadata.Inputs) != 1 {
		return nil, fmt.Errorf("%w: model %s has %d inputs: a body without JSON is for models "+
			"that have one", oip.ErrRequest, m.name, len(m.metadata.Inputs))
	}
	v := m.inputs[m.metadata.Inputs[0].Name]
	shape, err := rawShape(v, len(body))
	if err != nil {
		return nil, err
	}
	t, err := oip.FromBytes(v.Type.DType, shape, body)
	if err != nil {
		return nil, fmt.Errorf("input %s: %w", v.Name, err)
	}
	return &oip.Request{Inputs: []oip.Input{{Name: v.Name, Tensor: t}},
		Parameters: oip.Parameters{"binary_data_output": true}}, nil
}

// rawShape finds the one dimension of an input that its model leaves open from the number of bytes.
func rawShape(v weir.ValueInfo, bytes int) ([]int, error) {
	shape, open := []int{}, -1
	for i, d := range v.Type.Shape {
		if d.Size < 0 {
			if open >= 0 {
				return nil, fmt.Errorf("%w: input %s is %v: a body without JSON is for inputs of "+
					"which one dimension is open at most", oip.ErrRequest, v.Name, v.Type)
			}
			open = i
			shape = append(shape, 1)
			continue
		}
		shape = append(shape, d.Size)
	}
	if v.Type.Shape == nil || v.Type.DType == tensor.String && open >= 0 {
		return nil, fmt.Errorf("%w: input %s is %v: its shape does not follow from the body's size",
			oip.ErrRequest, v.Name, v.Type)
	}
	if open >= 0 {
		one, err := tensor.ByteCount(v.Type.DType, shape)
		if err != nil || one == 0 || bytes%one != 0 {
			return nil, fmt.Errorf("%w: input %s is %v: %d bytes are no whole number of %d",
				oip.ErrRequest,
				v.Name, v.Type, bytes, one)
		}
		shape[open] = bytes / one
	}
	return shape, nil
}
