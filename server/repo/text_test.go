package repo

import (
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"

	"github.com/weirgpu/weir/server/oip"
	pb "github.com/weirgpu/weir/server/oip/inferencepb"
)

// whole is a configuration with a word of each kind.
const whole = `# a comment
name: "m" platform: 'onnxruntime_onnx',
max_batch_size: 0x8;
input [
  { name: "x" data_type: TYPE_FP32 format: FORMAT_NCHW dims: [ -1, 2 ] reshape { shape: [ ] } },
  { name: "ids" data_type: TYPE_INT64 dims: 3 dims: 4 }
]
output < name: "y" "z" data_type: TYPE_STRING dims: -1 label_filename: "a\tb\x41\'\"\?\u00e4" >
version_policy: { specific: { versions: [1, 3] } }
dynamic_batching {
  preferred_batch_size: [ 4, 8 ]
  max_queue_delay_microseconds: 100
  priority_levels: 2 default_priority_level: 1
  default_queue_policy { timeout_action: REJECT default_timeout_microseconds: 5
    allow_timeout_override: true max_queue_size: 7 }
}
instance_group [ { count: 2 kind: KIND_CPU rate_limiter { resources [ { name: "r" count: 4 } ] } } ]
parameters { key: "a" value: { string_value: "b" } }
parameters { key: "c" value { string_value: "d" } }
model_warmup [ { name: "w" batch_size: 1 count: 3
  inputs { key: "x" value { data_type: TYPE_FP32 dims: [ 1, 2 ] random_data: true } } } ]
optimization { graph { level: -1 } priority: PRIORITY_MAX cuda { graphs: 1 names: "a" 'b' } }
sequence_batching { max_sequence_idle_microseconds: 5 oldest { max_candidate_sequences: 4 }
  control_input [ { name: "START" control [ { kind: CONTROL_SEQUENCE_START
    fp32_false_true: [ 0, 1.5e0 ] } ] } ] }
response_cache { enable: true }
`

// TestParseConfig: what a configuration says is what is read.
func TestParseConfig(t *testing.T) {
	got := &oip.Config{}
	if err := readText(whole, got); err != nil {
		t.Fatal(err)
	}
	want := &oip.Config{Name: "m", Platform: "onnxruntime_onnx", MaxBatchSize: 8,
		Input: []oip.ConfigItem{{Name: "x", DataType: "TYPE_FP32", Format: "FORMAT_NCHW",
			Dims: []int64{-1, 2}, Reshape: &oip.Reshape{}},
			{Name: "ids", DataType: "TYPE_INT64", Dims: []int64{3, 4}}},
		Output: []oip.ConfigItem{{Name: "yz", DataType: "TYPE_STRING", Dims: []int64{-1},
			LabelFilename: "a\tbA'\"?ä"}},
		VersionPolicy: oip.VersionPolicy{Specific: &oip.SpecificVersions{Versions: []int64{1, 3}}},
		DynamicBatching: &oip.DynamicBatching{PreferredBatchSize: []int64{4, 8},
			MaxQueueDelayMicroseconds: 100, PriorityLevels: 2, DefaultPriorityLevel: 1,
			DefaultQueuePolicy: oip.QueuePolicy{TimeoutAction: "REJECT", MaxQueueSize: 7,
				DefaultTimeoutMicroseconds: 5, AllowTimeoutOverride: true}},
		InstanceGroup: []oip.InstanceGroup{{Kind: "KIND_CPU", Count: 2,
			RateLimiter: &oip.Unread{}}},
		Parameters: map[string]oip.ConfigText{"a": {StringValue: "b"}, "c": {StringValue: "d"}},
		ModelWarmup: []oip.Warmup{{Name: "w", BatchSize: 1, Count: 3, Inputs: map[string]oip.
			WarmupInput{"x": {DataType: "TYPE_FP32", Dims: []int64{1, 2}, RandomData: true}}}},
		Optimization: &oip.Unread{},
		SequenceBatching: &oip.SequenceBatching{MaxSequenceIdleMicroseconds: 5,
			Oldest: &oip.OldestSequences{MaxCandidateSequences: 4},
			ControlInput: []oip.SequenceControl{{Name: "START", Control: []oip.ControlKind{{
				Kind: "CONTROL_SEQUENCE_START", FP32FalseTrue: []float64{0, 1.5}}}}}},
		ResponseCache: &oip.ResponseCache{Enable: true}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read\n%+v\nwant\n%+v", got, want)
	}
}

// TestParseConfigRefuses: what is wrong is said, with its line.
func TestParseConfigRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"\n\nnonsense: 1":                              `line 3: there is no key "nonsense" here`,
		"input [ {\n nam: \"x\" } ]":                   `line 2: there is no key "nam" here`,
		"name: x":                                      `line 1: name is "x": expected a string`,
		"name \"x\"":                                   "line 1: name: expected a colon",
		"name: \"x\nname: \"y\"":                       "line 1: the string has no end",
		"name: \"x":                                    "the string has no end",
		"name: \"\\q\"":                                "an escape that there is not",
		"name: \"\\xff\"":                              "it is no UTF-8",
		"name: \"\xff\"":                               "is no UTF-8",
		"name: \"a\"\nname: \"b\"":                     "line 2: name is given twice",
		"max_batch_size: 4.5":                          "is \"4.5\": expected a whole",
		"max_batch_size: 4294967296":                   "from -2147483648 to 2147483647",
		"max_batch_size: [ 1 ]":                        "takes no list",
		"dynamic_batching { priority_levels: -1":       "line 1: priority_levels is \"-1\"",
		"input {\n dims: [ 1 2 ] }":                    "line 2: \"2\": expected a comma",
		"input { dims: [ 1, ] }":                       "dims is \"]\"",
		"input { data_type: \"TYPE_FP32\" }":           "expected a name without quotes",
		"input {":                                      "expected the name of a key",
		"input { } }":                                  "expected the name of a key",
		"input: 3":                                     "expected {",
		"response_cache { enable: yes }":               "expected true or false",
		"parameters { key: \"a\" other: 1 }":           "expected one key and one value",
		"optimization { a [ }":                         "ends nothing",
		"optimization { a: 1":                          "has no end",
		"[a.b]: 3":                                     "expected the name of a key",
		strings.Repeat("optimization <", 99):           "more than",
		"default_model_filename: \"../x\"":             "give the name of a file",
		"default_model_filename: \".x\"":               "give the name of a file",
		"dynamic_batching {} sequence_batching {}":     "give one of them",
		"version_policy { all {} latest {} }":          "give one of them",
		"response_cache { enable: true } \n { a: 1 } ": "line 2",
	} {
		_, err := ParseConfig(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// FuzzParseConfig: no text ends the program, and what is read is what the library of protocol
// buffers reads, of the keys that both know, where none are passed over.
func FuzzParseConfig(f *testing.F) {
	for _, text := range []string{"", whole, "name: \"a\" 'b'", "input [ { dims: [ 1, -1 ] } ]",
		"max_batch_size: 010", "max_batch_size: -0", "parameters [ { key: \"a\" } ]",
		"version_policy < all < > >", "name: '\\303\\244'", "max_batch_size: 1e", "input: { }",
		"optimization: [ -1, \"a\" \"b\" ]", "model_transaction_policy { decoupled: t }"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, r := &oip.Config{}, &textReader{text: text, line: 1}
		if r.read(got) != nil || r.passed {
			return
		}
		var want pb.ModelConfig
		o := prototext.UnmarshalOptions{DiscardUnknown: true}
		if err := o.Unmarshal([]byte(text), &want); err != nil {
			if known(err) {
				return
			}
			t.Fatalf("%q is read, and is wrong: %v", text, err)
		}
		if got.Name != want.Name || got.Platform != want.Platform ||
			got.MaxBatchSize != int64(want.MaxBatchSize) || len(got.Input) != len(want.Input) ||
			len(got.Parameters) != len(want.Parameters) {
			t.Fatalf("%q is read as %+v, and is %v", text, got, &want)
		}
		for i := range got.Input {
			if a, b := got.Input[i], want.Input[i]; a.Name != b.Name || len(a.Dims) != len(b.Dims) {
				t.Fatalf("%q: input %d is %+v, and is %v", text, i, a, b)
			}
		}
	})
}

// known reports whether an error is about names of enumerations, which package server holds against
// the model, or about which of several keys are given, as CheckConfig does.
func known(err error) bool {
	return strings.Contains(err.Error(), "enum type") || strings.Contains(err.Error(), "oneof")
}
