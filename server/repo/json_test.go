package repo

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weirgpu/weir/server/oip"
	pb "github.com/weirgpu/weir/server/oip/inferencepb"
)

// inJSON are configurations that are the same.
var inJSON = []string{`{"name":"m","max_batch_size":16,"input":[{"name":"x","dims":[-1,2]}],` +
	`"dynamic_batching":{"max_queue_delay_microseconds":100,"priority_levels":null},` +
	`"model_warmup":[{"inputs":{"x":{"zero_data":true}}}],"parameters":{"aB":{"string_value":""}}}`,
	`{"name":"m","maxBatchSize":"16","input":[{"name":"x","dims":["-1","2"]}],` +
		`"dynamicBatching":{"maxQueueDelayMicroseconds":"100"},"output":null,` +
		`"modelWarmup":[{"inputs":{"x":{"zeroData":true}}}],"parameters":{"aB":{}}}`}

// TestParseJSON: both spellings of names and of numbers are read, and what the text format says
// is what its JSON says.
func TestParseJSON(t *testing.T) {
	want := &oip.Config{Name: "m", MaxBatchSize: 16, Input: []oip.ConfigItem{{Name: "x",
		Dims: []int64{-1, 2}}}, DynamicBatching: &oip.DynamicBatching{
		MaxQueueDelayMicroseconds: 100}, ModelWarmup: []oip.Warmup{{Inputs: map[string]oip.
		WarmupInput{"x": {ZeroData: true}}}}, Parameters: map[string]oip.ConfigText{"aB": {}}}
	for _, text := range inJSON {
		if got, err := ParseJSON(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: read %+v, %v", text, got, err)
		}
	}
	if err := readText(whole, want); err != nil {
		t.Fatal(err)
	}
	want.DynamicBatching = nil // beside that of sequences
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseJSON(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := json.Marshal(got); string(again) != string(text) {
		t.Errorf("read %s of %s", again, text)
	}
}

// TestParseJSONRefuses: what is wrong is said by its name.
func TestParseJSONRefuses(t *testing.T) {
	for text, want := range map[string]string{
		``:      "EOF",
		`[]`:    "no object",
		`null`:  "no object",
		`{} {}`: "more behind",
		`"parameters": {"config": {{"max_batch_size": "16"}}}`: "more behind",
		`{"max_batch_siz":1}`:                         `no key "max_batch_siz"`,
		`{"max_batch_size":1.5}`:                      "whole number from -2147483648",
		`{"max_batch_size":2147483648}`:               "to 2147483647",
		`{"max_batch_size":true}`:                     "max_batch_size is true",
		`{"dynamic_batching":{"priority_levels":-1}}`: "from 0",
		`{"dynamic_batching":[]}`:                     "expected an object",
		`{"parameters":[]}`:                           "expected an object",
		`{"input":{}}`:                                "expected a list",
		`{"input":[{"nam":1}]}`:                       `no key "nam" in input`,
		`{"name":1}`:                                  "expected a string",
		`{"response_cache":{"enable":"true"}}`:        "expected true or false",
		`{"sequence_batching":{"direct":{"minimumSlotUtilization":` + `"1e999"}}}`: "a number",
		`{"default_model_filename":"../x"}`:                                        "name of a file",
		strings.Repeat(`{"optimization":`, 20000):                                  "exceeded max depth",
	} {
		if _, err := ParseJSON(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.90s: %v, want %s", text, err, want)
		}
	}
}

// FuzzParseJSON: no text ends the program, and what is read is what the library of protocol buffers
// reads, of the keys that both know.
func FuzzParseJSON(f *testing.F) {
	for _, text := range append(inJSON, "", "{}", `{"max_batch_size":"1e1"}`, `{"name":null}`,
		`{"versionPolicy":{"all":{}}}`, `{"optimization":{"a":[1]}}`, `{"name":"\ud800"}`) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseJSON(text)
		var want pb.ModelConfig
		o := protojson.UnmarshalOptions{DiscardUnknown: true}
		if err != nil || o.Unmarshal([]byte(text), &want) != nil {
			return
		}
		if got.Name != want.Name || got.MaxBatchSize != int64(want.MaxBatchSize) ||
			len(got.Input) != len(want.Input) || len(got.Parameters) != len(want.Parameters) {
			t.Fatalf("%q is read as %+v, and is %v", text, got, &want)
		}
	})
}
