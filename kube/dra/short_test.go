package dra

import (
	"strings"
	"testing"
)

func short(fields ...string) map[string]string {
	m := map[string]string{"other": "thing"}
	for i := 0; i < len(fields); i += 2 {
		m[AnnotationPrefix+fields[i]] = fields[i+1]
	}
	return m
}

func TestShortFormIsReadAsAClaim(t *testing.T) {
	for _, c := range []struct {
		annotations            map[string]string
		name, parameters, want string
	}{
		{short(), "", "", ""},
		{short("gang", "g"), "", "", ""},
		{short("memory", "8Gi"), "weir-8gi-any-any-any-any", "", ""},
		{short("memory", "8Gi", "compute", "300m"), "weir-8gi-300m-any-any-any", "", ""},
		{short("compute", "0.3", "limit", "1", "class", "latency", "qos", "Burstable"),
			"weir-any-0.3-1-latency-burstable", `{"apiVersion":"gpu.weir.dev/v1alpha1",` +
				`"class":"latency","kind":"ShareParameters","limit":"1","qos":"Burstable"}`, ""},
		{short("memory", "8 GB"), "", "", "memory"},
		{short("memory", "8B"), "", "", "memory"},
		{short("memory", "0"), "", "", "memory"},
		{short("memory", "1.5Gi"), "", "", "memory"},
		{short("compute", "1001m"), "", "", "at most 1"},
		{short("compute", "half"), "", "", "compute"},
		{short("compute", "300m", "limit", "0.2"), "", "", "below compute"},
		{short("limit", "0"), "", "", "limit"},
		{short("limit", "x"), "", "", "limit"},
		{short("class", "urgent"), "", "", "class"},
		{short("qos", "Best"), "", "", "qos"},
		{short("qos", "Guaranteed"), "", "", "without compute"},
		{short("qos", "BestEffort", "class", "latency"), "", "", "leave class out"},
	} {
		s, ok, err := ParseShort(c.annotations)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v: %v: want %q", c.annotations, err, c.want)
			}
			continue
		}
		if err != nil || ok != (c.name != "") {
			t.Errorf("%v: %v, %v", c.annotations, ok, err)
		}
		if ok && (s.Template() != c.name || string(s.Parameters()) != c.parameters) {
			t.Errorf("%v: template %s, parameters %s", c.annotations, s.Template(), s.Parameters())
		}
	}
}

// TestShortTemplatesOfOthersAreOthers holds that no two that differ share a template.
func TestShortTemplatesOfOthersAreOthers(t *testing.T) {
	of := map[string]Short{}
	for _, m := range []string{"", "8", "8k", "8Ki", "8M", "8Mi", "8G", "8Gi", "8T", "8Ti"} {
		for _, c := range []string{"", "1", "1m", "0.1", "0.10"} {
			for _, l := range []string{"", "1", "1.0"} {
				for _, class := range []string{"", "latency", "standard", "opportunistic"} {
					for _, q := range []string{"", "Burstable", "Guaranteed", "BestEffort"} {
						s := Short{m, c, l, class, q}
						if other, is := of[s.Template()]; is {
							t.Fatalf("%+v and %+v share %s", s, other, s.Template())
						}
						of[s.Template()] = s
					}
				}
			}
		}
	}
}
