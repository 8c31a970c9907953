package op

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// String names the kind as in AttributeProto.AttributeType.
func (k AttrKind) String() string {
	if name := kindNames[k]; name != "" {
		return name
	}
	return fmt.Sprint(uint8(k))
}

var kindNames = map[AttrKind]string{AttrFloat: "float", AttrInt: "int", AttrString: "string",
	AttrTensor: "tensor", AttrBody: "graph",
	AttrFloats: "floats", AttrInts: "ints", AttrStrings: "strings", AttrType: "type"}

// attrKinds gives the kind of each attribute that has the same one in every ONNX operator and
// version (onnx/defs, opsets 1 to 26), for operators of other domains that have them, too. Left out
// are p, seed, to and value, whose kinds differ.
var attrKinds = sync.OnceValue(func() map[string]AttrKind {
	return AttrKinds(map[AttrKind]string{
		AttrInt: `
			align_corners allowzero antialias axis batch_axis batch_dims block_size blocksize
			broadcast ceil_mode center_point_box count_include_pad detect_negative
			detect_positive dtype end exclude_outside exclusive fmod group hidden_size
			ignore_index input_forget interleaved inverse is_causal is_test k keepdims
			kv_num_heads largest layout left_window_size linear_before_reset new_axis
			noop_with_empty_axes num_groups num_heads num_outputs num_scan_inputs offset_group
			onesided output_datatype output_dtype output_height output_sequence output_width
			periodic precision q_num_heads qk_matmul_output_mode reverse right_window_size
			rotary_embedding_dim sample_size sampling_ratio saturate select_last_index size
			softmax_precision sorted spatial start stash_type storage_order time_axis
			training_mode transA transB upper value_int is_case_sensitive max_gram_length
			max_skip_count maxsplit min_gram_length`,
		AttrFloat: `
			alpha beta bias clip cubic_coeff_a epsilon extrapolation_value gamma height_scale
			high lambd low max mean min momentum ratio scale softcap spatial_scale value_float
			width_scale`,
		AttrString: `
			activation approximate auto_pad coordinate_transformation_mode direction equation
			keep_aspect_ratio_policy mode nearest_mode padding_mode reduction round_mode
			value_string case_change_action delimiter locale pattern`,
		AttrInts: `
			axes dilations directions ends kernel_shape output_padding output_shape paddings
			pads perm scan_input_axes scan_input_directions scan_output_axes
			scan_output_directions shape split starts strides value_ints ngram_counts
			ngram_indexes pool_int64s`,
		AttrFloats:  `activation_alpha activation_beta scales value_floats weights`,
		AttrStrings: `activations pool_strings stopwords value_strings`,
		AttrType:    `type`,
		AttrBody:    `body else_branch then_branch`,
	})
})

// AttrKinds turns lists of names, separated by spaces, into the kind of each name.
func AttrKinds(names map[AttrKind]string) map[string]AttrKind {
	kinds := map[string]AttrKind{}
	for kind, list := range names {
		for _, name := range strings.Fields(list) {
			kinds[name] = kind
		}
	}
	return kinds
}

// attrKind is the kind of an attribute of an operator that ONNX has no definition of, where its
// name tells it.
func (e Extension) attrKind(c *Call, name string) (AttrKind, bool) {
	if k, ok := e.AttrKind(c, name); ok {
		return k, true
	}
	k, ok := attrKinds()[name]
	return k, ok
}

// checkKinds refuses attributes of operators that ONNX does not define which are of another kind
// than their domain gives them.
func (c *Call) checkKinds() error {
	i := slices.IndexFunc(extensions, func(e Extension) bool {
		return e.AttrKind != nil && e.Domain == c.Domain
	})
	if i < 0 {
		return nil
	}
	for _, a := range c.Attrs {
		if a.Body != nil { // what a graph captures would be taken for operands
			return c.Errorf(ErrAttr, "%s is a graph, and the operator runs none", a.Name)
		}
		if want, ok := extensions[i].attrKind(c, a.Name); ok && a.Kind != want {
			return c.Errorf(ErrAttr, "%s is of kind %v, want %v", a.Name, a.Kind, want)
		}
	}
	return nil
}

// kindNumbers is kindNames the other way round. Kinds that weir does not read are 0, which no
// attribute has.
var kindNumbers = sync.OnceValue(func() map[string]AttrKind {
	numbers := map[string]AttrKind{"type_proto": AttrType}
	for k, name := range kindNames {
		numbers[name] = k
	}
	return numbers
})
