package microsoft

import (
	"strings"
	"sync"

	"github.com/weirgpu/weir/internal/op"
)

// kinds gives the kind of each attribute that only operators of com.microsoft have
// (ContribOperators.md).
var kinds = sync.OnceValue(func() map[string]op.AttrKind {
	return op.AttrKinds(map[op.AttrKind]string{
		op.AttrInt: `
			K N accuracy_level bits causal channels_last do_rotary interleaved
			is_inner_broadcast is_packed_batching kv_cache_bit_width local_window_size
			mask_index_type opset past_present_share_buffer qk_output rotary_interleaved
			sliding_window_cache smooth_softmax transBatchA transBatchB unidirectional
			weight_prepacked`,
		op.AttrFloat:  `activation_gamma mask_filter_value qk_norm_epsilon`,
		op.AttrString: `k_quant_type v_quant_type`,
		op.AttrInts:   `qkv_hidden_sizes`,
		op.AttrFloats: `activation_params`,
	})
})

// kindOf is the kind of an attribute that only operators of this domain have, or that one of them
// has as another kind than ONNX's.
func kindOf(c *op.Call, name string) (op.AttrKind, bool) {
	if k, ok := kinds()[name]; ok {
		return k, true
	}
	if c.Type == "FusedGemm" && strings.HasPrefix(name, "activation_") {
		return op.AttrFloat, true // lists in ONNX
	}
	return 0, false
}
