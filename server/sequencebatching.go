package server

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
)

// sequenceProperties are the properties of a model that say what a kind of control input does.
var sequenceProperties = map[string]string{
	"CONTROL_SEQUENCE_START": propertyStart, "CONTROL_SEQUENCE_READY": propertyReady,
	"CONTROL_SEQUENCE_END": propertyEnd, "CONTROL_SEQUENCE_CORRID": propertyID,
}

// inSequences makes the version one of sequences where its configuration says so, in the place of
// what the model itself says.
func (v *version) inSequences(c *oip.SequenceBatching) error {
	if c == nil {
		return nil
	}
	idle := time.Duration(min(c.MaxSequenceIdleMicroseconds, int64(24*time.Hour/
		time.Microsecond))) * time.Microsecond
	if idle == 0 {
		idle = idleSequence
	}
	properties := map[string]string{propertyIdle: idle.String()}
	for _, in := range c.ControlInput {
		for _, k := range in.Control {
			key, err := controlled(&k)
			if err != nil {
				return fmt.Errorf("%w: configuration: control_input %s: %w", weir.ErrUnsupported,
					in.Name, err)
			}
			properties[key] = in.Name
		}
	}
	var states []string
	for _, st := range c.State {
		for _, first := range st.InitialState {
			if !first.ZeroData {
				return fmt.Errorf("%w: configuration: state %s: initial_state: a sequence begins "+
					"with zeros: give zero_data", weir.ErrUnsupported, st.InputName)
			}
		}
		states = append(states, st.InputName+"="+st.OutputName)
	}
	if len(states) > 0 {
		properties[propertyState] = strings.Join(states, ",")
	}
	q, err := sequencingOf(properties, v)
	if err != nil {
		return fmt.Errorf("configuration: sequence_batching: %w", err)
	}
	v.sequences = newSequences(q)
	return nil
}

// controlled is the property that an input of a kind stands for.
func controlled(k *oip.ControlKind) (string, error) {
	key := sequenceProperties[k.Kind]
	is := func(no, yes bool) bool { return !no && yes }
	switch {
	case key == "":
		return "", fmt.Errorf("kind is %.60q", k.Kind)
	case key != propertyID && len(k.Int32FalseTrue) > 0 &&
		!slices.Equal(k.Int32FalseTrue, []int64{0, 1}),
		key != propertyID && len(k.FP32FalseTrue) > 0 &&
			!slices.Equal(k.FP32FalseTrue, []float64{0, 1}),
		key != propertyID && len(k.BoolFalseTrue) > 0 &&
			(len(k.BoolFalseTrue) != 2 || !is(k.BoolFalseTrue[0], k.BoolFalseTrue[1])):
		return "", fmt.Errorf("the values for no and yes are 0 and 1")
	}
	return key, nil
}

// keeps reports whether an input or output is the server's to give and to keep.
func (v *version) keeps(name string) bool { return v.sequences != nil && v.sequences.own(name) }
