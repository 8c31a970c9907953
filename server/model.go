package server

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/admit"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/queue"
	"github.com/weirgpu/weir/server/telemetry"
)

// version is a version of a model that is loaded.
type version struct {
	name, number string
	n            int64  // its number
	load         uint64 // tells it from all others of the server
	source       Source
	on           *weir.Model // with job and queue nil of a pipeline, whose models have theirs
	job          *weir.Tenant
	metadata     oip.Metadata
	inputs       map[string]weir.ValueInfo
	outputs      map[string]int // the place of each output in the model's order
	// types and results are the inputs and outputs as the model has them, and views those that its
	// configuration names; metadata has them as clients see them.
	types, results []oip.TensorFields
	views          map[string]*view

	server *Server
	model  *model
	life   context.Context // done once it is to end
	end    context.CancelFunc
	studies
	queue   *queue.Queue[*task]
	batches atomic.Pointer[batching]
	whole   atomic.Pointer[batching] // before narrow; nil: batches are as they were learned
	desks   sync.Pool                // of desk
	padding *padding                 // that is asked for; nil for none
	room    room
	// suspects have requests that failed a batch of late
	suspects suspects
	most     atomic.Int64 // bytes that somebody has capped its memory at; 0: nobody has
	counts   *telemetry.Model
	members  *telemetry.Members // that it is one graph of; nil of others
	// sequences are those that are under way, nil of a model that knows none
	sequences *sequences
	decoupled bool      // its rows are answers of their own
	ensemble  *ensemble // how it is made of other models; nil: it is a model of its own

	under int        // requests that are not answered; the server's mu is held
	going *departure // nil while it takes requests; the server's mu is held
}

// own is the priority of requests of the server's own: behind all others.
func (v *version) own() int {
	if d := v.dynamic(); d != nil {
		return int(max(d.PriorityLevels, 1)) + 1
	}
	return 2
}

// admission says how requests for the version wait and are put together.
func (v *version) admission() admit.Model { return v.admitting(v.batches.Load()) }

// admitting is what admission says where requests are put together so.
func (v *version) admitting(b *batching) admit.Model {
	m := admit.Model{Name: v.name, Class: v.job.Usage().Share.Class, Queue: v.server.o.Queue,
		Bytes: v.server.o.Bodies, Levels: v.own(), Default: 1,
		Batch: admit.Batch{Max: b.most, Preferred: b.preferred, Delay: b.delay}}
	if d := v.dynamic(); d != nil {
		m.Default = int(max(d.DefaultPriorityLevel, 1))
		if n := d.DefaultQueuePolicy.MaxQueueSize; n > 0 {
			m.Queue = int(n)
		}
	}
	return m
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
	v.types, v.results = v.metadata.Inputs, v.metadata.Outputs
	return v, v.declare(m.Metadata().Properties)
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

// declare reads what the properties of a model say of how it is to be asked.
func (v *version) declare(properties map[string]string) error {
	var err error
	if v.decoupled, err = decoupledOf(properties); err != nil {
		return err
	}
	q, err := sequencingOf(properties, v)
	if err != nil || q == nil {
		return err
	}
	v.sequences = newSequences(q)
	return nil
}

// shown is what clients see of the metadata: without what the server gives and keeps itself.
func (v *version) shown() oip.Metadata {
	if v.sequences == nil {
		return v.metadata
	}
	own := func(f oip.TensorFields) bool { return v.sequences.own(f.Name) }
	m := v.metadata
	m.Inputs = slices.DeleteFunc(slices.Clone(m.Inputs), own)
	m.Outputs = slices.DeleteFunc(slices.Clone(m.Outputs), own)
	return m
}
