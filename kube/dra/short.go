package dra

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// The short form: annotations of a pod that ask for a part of one GPU, for those who do not want to
// write claims. The chart's admission policies (kube/chart/templates/short.yaml) check them, and
// give the pod's containers a claim of a template whose name follows from them; package short of
// kube/node makes that template.
const (
	// AnnotationPrefix is what the annotations begin with; memory, compute, limit, class and qos
	// follow, with a claim's meaning and a claim's defaults.
	AnnotationPrefix = "weir.dev/"
	// ShortClaim is the name of the claim within the pod.
	ShortClaim = "weir"
)

// Short is what a pod's annotations ask for, as they are written; empty fields are not said.
type Short struct {
	Memory, Compute, Limit, Class, QoS string
}

// What the policies match, too.
var (
	shortMemory = regexp.MustCompile(`^[1-9][0-9]{0,17}(Ki|Mi|Gi|Ti|k|M|G|T)?$`)
	shortPart   = regexp.MustCompile(`^([0-9]{1,4}m|[01]|[01][.][0-9]{1,3})$`)
)

// ParseShort reads annotations; ok is false where they ask for nothing. The error is of what can
// never be, as the driver would refuse it.
func ParseShort(annotations map[string]string) (s Short, ok bool, err error) {
	for key, to := range map[string]*string{"memory": &s.Memory, "compute": &s.Compute,
		"limit": &s.Limit, "class": &s.Class, "qos": &s.QoS} {
		if v, is := annotations[AnnotationPrefix+key]; is {
			*to, ok = v, true
		}
	}
	if !ok {
		return s, false, nil
	}
	return s, true, s.check()
}

func (s Short) check() error {
	if s.Memory != "" && !shortMemory.MatchString(s.Memory) {
		return fmt.Errorf("annotation %smemory: %q: want a size such as 8Gi", AnnotationPrefix,
			s.Memory)
	}
	for key, v := range map[string]string{"compute": s.Compute, "limit": s.Limit} {
		if v != "" && !shortPart.MatchString(v) {
			return fmt.Errorf("annotation %s%s: %q: want a part of the device such as 300m or 0.3",
				AnnotationPrefix, key, v)
		}
	}
	compute := 0
	if s.Compute != "" {
		var err error
		if compute, err = ParseMilli(s.Compute); err != nil {
			return err
		}
	}
	p := Parameters{}
	if text := s.Parameters(); text != nil {
		var err error
		if p, err = ParseParameters(p, text); err != nil {
			return err
		}
	}
	_, err := p.shareOf(1, compute)
	return err
}

// Parameters are the claim's for the driver, or nil where nothing is said that needs any.
func (s Short) Parameters() []byte {
	d := map[string]string{}
	for key, v := range map[string]string{"limit": s.Limit, "class": s.Class, "qos": s.QoS} {
		if v != "" {
			d[key] = v
		}
	}
	if len(d) == 0 {
		return nil
	}
	d["apiVersion"], d["kind"] = ParametersVersion, ParametersKind
	text, err := json.Marshal(d)
	if err != nil {
		panic(err) // texts by text
	}
	return text
}

// Template is the name of the claim template for what is asked for, which is a DNS subdomain: the
// policy of the chart makes the same name of the same annotations, and another of others.
func (s Short) Template() string {
	parts := []string{"weir"}
	for _, v := range []string{s.Memory, s.Compute, s.Limit, s.Class, s.QoS} {
		if v == "" {
			v = "any"
		}
		parts = append(parts, strings.ToLower(v))
	}
	return strings.Join(parts, "-")
}
