package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/admit"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/queue"
	"github.com/weirgpu/weir/server/telemetry"
)

// version is a version of a model that is served.
type version struct {
	name, number string
	on           *weir.Model
	job          *weir.Tenant
	metadata     oip.Metadata
	inputs       map[string]weir.ValueInfo
	outputs      map[string]int // the place of each output in the model's order

	again func() (*weir.Model, error) // opens it once more; nil where that cannot be

	server  *Server
	queue   *queue.Queue[*task]
	batches atomic.Pointer[batching]
	desk    desk
	room    room
	counts  *telemetry.Model

	under int // requests that are not answered; under the server's mu
}

// Load admits m under the job's share, and answers requests for it from then on under j.Name and
// the version. It takes m over and closes it with the server. Where m cannot be compiled for
// j.Shapes, the first request decides for which. The error is that of Host.Admit, and of kind
// weir.ErrUnsupported where the protocol has no type for an input; m is then closed at once.
func (s *Server) Load(ctx context.Context, m *weir.Model, number int64, j weir.Job) error {
	v, err := s.admit(ctx, m, number, j)
	if err != nil {
		return errors.Join(fmt.Errorf("model %s: %w", j.Name, err), m.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.models[j.Name] = v
	s.background.Go(func() { v.learn(s.life) })
	return nil
}

// admit makes a version of a model that is not served yet.
func (s *Server) admit(ctx context.Context, m *weir.Model, number int64,
	j weir.Job) (*version, error) {
	v, err := describe(m, j.Name, strconv.FormatInt(number, 10))
	if err != nil {
		return nil, err
	}
	v.server = s
	v.job, err = s.host.Admit(ctx, m, j)
	if len(j.Shapes) > 0 && j.Memory == 0 && !errors.Is(err, weir.ErrMemory) && err != nil {
		j.Shapes, j.Memory = nil, min(s.Free(), unknownNeed)
		v.job, err = s.host.Admit(ctx, m, j)
	}
	if err != nil {
		return nil, err
	}
	v.room.open = len(j.Shapes) > 0 || j.Memory > 0
	v.counts = s.rec.Model(v.name, v.number, j.Name)
	v.batches.Store(&batching{most: 1})
	v.queue, err = queue.New(v.admission(), queue.Options[*task]{Run: v.run, Drop: (*task).free,
		Admitted: func(t *task) { t.follow.Mark(telemetry.Admitted) }})
	return v, err
}

// background is the priority of requests of the server's own: behind all others.
const background = 2

// admission says how requests for the version wait and are put together.
func (v *version) admission() admit.Model {
	b := v.batches.Load()
	return admit.Model{Name: v.name, Class: v.job.Usage().Share.Class, Queue: v.server.o.Queue,
		Bytes: v.server.o.Bodies, Levels: background, Default: 1,
		Batch: admit.Batch{Max: b.most, Preferred: b.preferred, Delay: b.delay}}
}

// Free returns what of the device's memory is not promised to models.
func (s *Server) Free() weir.Bytes {
	st := s.host.Status()
	return st.Memory - st.Promised
}

// describe reads from a model what its metadata say.
func describe(m *weir.Model, name, number string) (*version, error) {
	v := &version{name: name, number: number, on: m, inputs: map[string]weir.ValueInfo{},
		outputs: map[string]int{}}
	v.metadata = oip.Metadata{Name: name, Versions: []string{number}, Platform: "onnx_onnxv1",
		Inputs: []oip.TensorFields{}, Outputs: []oip.TensorFields{}}
	for _, in := range m.Inputs() {
		f, ok := fields(in)
		if !ok {
			return nil, fmt.Errorf("%w: input %s is %v, which the inference protocol cannot carry",
				weir.ErrUnsupported, in.Name, in.Type)
		}
		v.inputs[in.Name] = in
		v.metadata.Inputs = append(v.metadata.Inputs, f)
	}
	for i, out := range m.Outputs() {
		if f, ok := fields(out); ok {
			v.metadata.Outputs = append(v.metadata.Outputs, f)
			v.outputs[out.Name] = i
		}
	}
	return v, nil
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
