package op

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/weirgpu/weir/tensor"
)

// textOps work on strings: StringNormalizer, StringConcat, StringSplit, RegexFullMatch.
var textOps = []Op{
	{Name: "StringNormalizer", Since: []int{10}, MinIn: 1, MaxIn: 1, Infer: inferNormalizer,
		Eval: evalNormalizer},
	{Name: "StringConcat", Since: []int{20}, MinIn: 2, MaxIn: 2, Traits: Elementwise,
		Infer: inferBroadcast(stringTypes, tensor.String), Eval: evalStringConcat},
	{Name: "StringSplit", Since: []int{20}, MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 2,
		Infer: inferStringSplit, Eval: evalStringSplit},
	{Name: "RegexFullMatch", Since: []int{20}, MinIn: 1, MaxIn: 1, Infer: inferRegex,
		Eval: evalRegex},
}

// changeCase is the attribute case_change_action of StringNormalizer. Letters change one by one,
// whatever the locale, as attribute locale leaves to the implementation.
func changeCase(c *Call) (func(string) string, error) {
	switch action := c.Attrs.String("case_change_action", "NONE"); action {
	case "NONE":
		return func(s string) string { return s }, nil
	case "LOWER":
		return strings.ToLower, nil
	case "UPPER":
		return strings.ToUpper, nil
	default:
		return nil, c.Errorf(ErrAttr, "case_change_action is %q, want LOWER, UPPER or NONE", action)
	}
}

// caseGrowth bounds how much longer a string gets in UTF-8: a letter of two bytes can become one of
// three.
const caseGrowth = 2

// stopped returns a test for stop words. The first spelling counts, before case_change_action;
// without is_case_sensitive two spellings of one word are the same.
func stopped(c *Call) func(string) bool {
	key := strings.ToLower
	if c.Attrs.Int("is_case_sensitive", 0) != 0 {
		key = func(s string) string { return s }
	}
	words := map[string]bool{}
	for _, w := range c.Attrs.Strings("stopwords") {
		words[key(w)] = true
	}
	return func(s string) bool { return words[key(s)] }
}

func inferNormalizer(c *Infer) error {
	if _, err := c.SameDType(stringTypes, c.In[0].DType); err != nil {
		return err
	}
	c.Out[0] = Unranked(tensor.String)
	if c.In[0].Ranked {
		if r := len(c.In[0].Shape); r != 1 && r != 2 {
			return c.Errorf(ErrInput, "wants [C] or [1, C], has %v", c.In[0])
		}
		c.Out[0] = Ranked(tensor.String, unknownDims(len(c.In[0].Shape))...)
		if len(c.In[0].Shape) == 2 {
			c.Out[0].Shape[0] = Known(1)
		}
	}
	_, err := changeCase(c.Call)
	return err
}

// evalNormalizer drops stop words and changes the case of what is left, which is one empty string
// when nothing is.
func evalNormalizer(c *Eval) error {
	x := c.In[0]
	if x.DType != tensor.String || x.Rank() != 1 && (x.Rank() != 2 || x.Shape[0] != 1) {
		return c.Errorf(ErrInput, "wants strings [C] or [1, C], has %v%v", x.DType, x.Shape)
	}
	change, err := changeCase(c.Call)
	if err != nil {
		return err
	}
	kept, bytes := slices.DeleteFunc(slices.Clone(x.Strings), stopped(c.Call)), 0
	for _, s := range kept {
		bytes += len(s)
	}
	if err := c.text(bytes * caseGrowth); err != nil {
		return err
	}
	for i, s := range kept {
		kept[i] = change(s)
	}
	if len(kept) == 0 {
		kept = []string{""}
	}
	shape := []int{len(kept)}
	if x.Rank() == 2 {
		shape = []int{1, len(kept)}
	}
	out, err := c.Output(0, tensor.String, shape)
	if err == nil {
		copy(out.Strings, kept)
	}
	return err
}

func evalStringConcat(c *Eval) error {
	if _, err := c.SameDType(stringTypes, c.DTypes()...); err != nil {
		return err
	}
	out, w, err := c.broadcastOutput(tensor.String)
	if err != nil {
		return err
	}
	x, y, bytes := c.In[0].Strings, c.In[1].Strings, 0
	pairs(w, x, y, func(_ int, a, b string) { bytes += len(a) + len(b) })
	if err := c.text(bytes); err != nil {
		return err
	}
	pairs(w, x, y, func(i int, a, b string) { out.Strings[i] = a + b })
	return nil
}

func inferStringSplit(c *Infer) error {
	x := c.In[0]
	if _, err := c.SameDType(stringTypes, x.DType); err != nil {
		return err
	}
	c.Out[0] = Unranked(tensor.String)
	if x.Ranked {
		c.Out[0] = Ranked(tensor.String, append(x.Shape[:len(x.Shape):len(x.Shape)], Unknown())...)
	}
	if len(c.Out) > 1 {
		c.Out[1] = Type{DType: tensor.Int64, Ranked: x.Ranked, Shape: x.Shape}
	}
	return nil
}

// evalStringSplit splits each string; what has fewer parts than the longest is filled with empty
// strings.
func evalStringSplit(c *Eval) error {
	x := c.In[0]
	if x.DType != tensor.String {
		return c.Errorf(ErrInput, "wants strings, has %v", x.DType)
	}
	parts, longest := splitStrings(c.Call, x.Strings)
	out, err := c.Output(0, tensor.String, append(x.Shape[:len(x.Shape):len(x.Shape)], longest))
	if err != nil {
		return err
	}
	clear(out.Strings)
	for i, p := range parts {
		copy(out.Strings[i*longest:], p)
	}
	if !c.Want(1) {
		return nil
	}
	counts, err := c.Output(1, tensor.Int64, x.Shape)
	if err != nil {
		return err
	}
	for i, p := range parts {
		tensor.As[int64](counts)[i] = int64(len(p))
	}
	return nil
}

// splitStrings splits each string as the attributes say; longest is how many parts any has.
func splitStrings(c *Call, strs []string) (parts [][]string, longest int) {
	delimiter, most := c.Attrs.String("delimiter", ""), -1
	if n := c.Attrs.Int("maxsplit", -1); n >= 0 {
		most = int(min(n, maxParts)) + 1
	}
	parts = make([][]string, len(strs))
	for i, s := range strs {
		if delimiter == "" {
			parts[i] = splitSpace(s, most)
		} else {
			parts[i] = strings.SplitN(s, delimiter, most)
		}
		longest = max(longest, len(parts[i]))
	}
	return parts, longest
}

// maxParts keeps maxsplit + 1 from wrapping; no string has as many parts.
const maxParts = 1 << 40

// splitSpace splits at runs of white space into at most the given number of parts (any when
// negative), without what is before the first and after the last.
func splitSpace(s string, most int) []string {
	if most < 0 {
		return strings.FieldsFunc(s, isSpace)
	}
	s = strings.TrimFunc(s, isSpace)
	var parts []string
	for len(s) > 0 {
		end := strings.IndexFunc(s, isSpace)
		if end < 0 || len(parts) == most-1 {
			return append(parts, s)
		}
		parts = append(parts, s[:end])
		s = strings.TrimLeftFunc(s[end:], isSpace)
	}
	return parts
}

// isSpace is white space as Python's str.split knows it, which the ONNX text goes back to:
// Unicode's and the four separators of ASCII.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// pattern compiles the attribute pattern, in RE2's syntax, to match whole strings only.
func pattern(c *Call) (*regexp.Regexp, error) {
	text := c.Attrs.String("pattern", "")
	if !c.Attrs.Has("pattern") {
		return nil, c.Errorf(ErrAttr, "has no pattern")
	}
	// alone, as the brackets below could make it whole
	if _, err := regexp.Compile(text); err != nil {
		return nil, c.Errorf(ErrAttr, "pattern: %v", err)
	}
	re, err := regexp.Compile(`\A(?:` + text + `)\z`)
	if err != nil {
		return nil, c.Errorf(ErrAttr, "pattern: %v", err)
	}
	return re, nil
}

func inferRegex(c *Infer) error {
	if _, err := c.SameDType(stringTypes, c.In[0].DType); err != nil {
		return err
	}
	c.Out[0] = Type{DType: tensor.Bool, Ranked: c.In[0].Ranked, Shape: c.In[0].Shape}
	_, err := pattern(c.Call)
	return err
}

func evalRegex(c *Eval) error {
	x := c.In[0]
	if x.DType != tensor.String {
		return c.Errorf(ErrInput, "wants strings, has %v", x.DType)
	}
	re, err := pattern(c.Call)
	if err != nil {
		return err
	}
	out, err := c.Output(0, tensor.Bool, x.Shape)
	if err != nil {
		return err
	}
	for i, s := range x.Strings {
		tensor.As[bool](out)[i] = re.MatchString(s)
	}
	return nil
}
