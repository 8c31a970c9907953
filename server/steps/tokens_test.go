package steps

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/tensor"
)

// vocabulary is what testdata/tokens.py notes of a tokenizer.
type vocabulary struct {
	Vocabulary, Merges string
	IDs                [][]int64
}

// idsModel has three inputs of tokens.
const idsModel = `graph "ids" {
  opset "" 21
  input %ids: int64[n,s]
  input %mask: int32[n,s]
  input %types: int64[n,s]
  %a: int64[n,s] = Identity@21 (%ids)
  %b: int32[n,s] = Identity@21 (%mask)
  %c: int64[n,s] = Identity@21 (%types)
  output %a
  output %b
  output %c
}`

// TestTokens: tokens are those that Hugging Face's tokenizers make with the same vocabulary.
func TestTokens(t *testing.T) {
	file, err := os.ReadFile("testdata/tokens.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Texts               []string
		Cased, Uncased, BPE vocabulary
	}
	if err := json.Unmarshal(file, &want); err != nil {
		t.Fatal(err)
	}
	const length = 160
	for name, c := range map[string]struct {
		of   vocabulary
		more string
		pad  int64
	}{"uncased": {want.Uncased, "", 0}, "cased": {want.Cased, ", cased: true", 0},
		"bpe": {want.BPE, `, merges: merges.txt, pad: "!"`, 0}} {
		m := joined(t, written(t, idsModel), "pre:\n  - {from: text, to: ids, steps: [tokenise: "+
			"{vocabulary: vocab, length: 160, mask: mask, types: types"+c.more+"}]}",
			map[string]string{"vocab": c.of.Vocabulary, "merges.txt": c.of.Merges})
		out := run(t, m, weir.Inputs{"text": texts(want.Texts...)})
		ids, mask := tensor.As[int64](out["a"]), tensor.As[int32](out["b"])
		for i, text := range want.Texts {
			tokens := c.of.IDs[i]
			if c.of.Merges == "" { // [CLS] and [SEP], which stand second and third in it
				tokens = slices.Concat([]int64{2}, tokens, []int64{3})
			}
			n := len(tokens)
			if got := ids[i*length:][:n]; !slices.Equal(got, tokens) {
				t.Errorf("%s: %q becomes %v, want %v", name, text, got, tokens)
			}
			for k := range length {
				if is := mask[i*length+k] == 1; is != (k < n) || !is && ids[i*length+k] != c.pad {
					t.Errorf("%s: %q: token %d of %d is %d, mask %v", name, text, k, n,
						ids[i*length+k], is)
					break
				}
			}
		}
		if slices.Max(tensor.As[int64](out["c"])) != 0 {
			t.Errorf("%s: types are not 0", name)
		}
	}
}

// TestTokensCut: a text of more tokens than a row has is cut, and its end token stays.
func TestTokensCut(t *testing.T) {
	m := joined(t, written(t, idsModel), "pre:\n  - {from: text, to: ids, steps: [tokenise: "+
		"{vocabulary: v, length: 4, mask: mask, types: types}]}",
		map[string]string{"v": "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n##b\n"})
	out := run(t, m, weir.Inputs{"text": texts(strings.Repeat("a ", 1000), "ab", "")})
	if got := tensor.As[int64](out["a"]); !slices.Equal(got, []int64{2, 4, 4, 3, 2, 4, 5, 3, 2, 3,
		0, 0}) {
		t.Errorf("tokens %v", got)
	}
}
