package otlp

import (
	"strings"
	"testing"
)

// TestParent: the specification's examples, and what it calls invalid.
func TestParent(t *testing.T) {
	const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for header, want := range map[string]string{
		"00-" + trace + "-" + span + "-01":                   "00-" + trace + "-" + span + "-01",
		"00-" + trace + "-" + span + "-00":                   "00-" + trace + "-" + span + "-00",
		"00-" + trace + "-" + span + "-ff":                   "00-" + trace + "-" + span + "-01",
		"cc-" + trace + "-" + span + "-01-what":              "00-" + trace + "-" + span + "-01",
		"cc-" + trace + "-" + span + "-01what":               "",
		"00-" + trace + "-" + span + "-01-what":              "",
		"ff-" + trace + "-" + span + "-01":                   "",
		"0-" + trace + "-" + span + "-01":                    "",
		"00-" + strings.Repeat("0", 32) + "-" + span + "-01": "",
		"00-" + trace + "-0000000000000000-01":               "",
		"00-" + strings.ToUpper(trace) + "-" + span + "-01":  "",
		"00-" + trace + "-" + span + "-0g":                   "",
		"00-" + trace + "_" + span + "-01":                   "",
		"":                                                   "",
	} {
		p, ok := ParseParent(header, "k=v")
		if ok != (want != "") || ok && Traceparent(p.Trace, p.Span, p.Sampled) != want {
			t.Errorf("%s: %+v, %v", header, p, ok)
		}
		if ok && p.State != "k=v" {
			t.Errorf("%s: state %q", header, p.State)
		}
	}
	if p, _ := ParseParent("00-"+trace+"-"+span+"-01", strings.Repeat("x", 513)); p.State != "" {
		t.Error("a state of any length is kept")
	}
}

func FuzzParent(f *testing.F) {
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=b")
	f.Add("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x", "")
	f.Fuzz(func(t *testing.T, header, state string) {
		p, ok := ParseParent(header, state)
		if !ok {
			return
		}
		again, ok := ParseParent(Traceparent(p.Trace, p.Span, p.Sampled), p.State)
		if !ok || again != p {
			t.Errorf("%q: %+v, again %+v", header, p, again)
		}
	})
}
