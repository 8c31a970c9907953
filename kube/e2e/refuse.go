package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// dry has the server do all but keep an object.
const dry = "?dryRun=All"

// wrong are claims that can never be, with what the server's answer is to have in it.
var wrong = []struct {
	want   string
	change func(*share, object)
}{
	{"unknown field", with(parameters("priority", 3))},
	{"want apiVersion gpu.weir.dev/v1alpha1", with(object{"apiVersion": "v1", "kind": "Pod"})},
	{"class: want latency", with(parameters("class", "urgent"))},
	{"qos: want Burstable", with(parameters("qos", "Best"))},
	{"limit: want a part", with(parameters("limit", "1500m"))},
	{"limit: want a part", with(parameters("limit", 0))},
	{"limit: want a part", with(parameters("limit", "lots"))},
	{"limit is below compute", with(parameters("limit", "200m"))},
	{"limit is below compute", with(parameters("limit", 0.2))},
	{"BestEffort is of class", with(parameters("qos", "BestEffort", "class", "latency"))},
	{"Guaranteed is compute", with(parameters("qos", "Guaranteed", "limit", "500m"))},
	{"Guaranteed is compute", func(s *share, _ object) {
		s.compute, s.parameters = 0, parameters("qos", "Guaranteed")
	}},
	{"compute: want at most 1", func(s *share, _ object) { s.compute = 1001 }},
	{"memory: want more than 0", func(s *share, _ object) { s.memory = 0 }},
	{"one request a device", func(_ *share, request object) { request["count"] = 2 }},
	{"one request a device", func(_ *share, request object) { request["allocationMode"] = "All" }},
	{"unknown capacity", func(_ *share, request object) {
		request["capacity"] = object{"requests": object{"memory": "1Gi", "cores": "3"}}
	}},
}

func with(parameters object) func(*share, object) {
	return func(s *share, _ object) { s.parameters = parameters }
}

// right are claims that the server takes.
var right = []func(*share){
	func(*share) {},
	func(s *share) { s.compute = 1000 },
	func(s *share) { s.compute = 0 },
	func(s *share) { s.parameters = parameters("limit", "300m") },
	func(s *share) { s.parameters = parameters("limit", 0.5, "class", "latency") },
	func(s *share) { s.parameters = parameters("limit", 1) },
	func(s *share) { s.parameters = parameters("qos", "Guaranteed") },
	func(s *share) { s.parameters = parameters("qos", "Guaranteed", "limit", "0.3") },
	func(s *share) { s.parameters = parameters("qos", "BestEffort", "class", "opportunistic") },
}

// refused holds that each wrong claim and template is refused with its reason, and each right one
// taken.
func (t *tester) refused(ctx context.Context) error {
	if err := t.active(ctx); err != nil {
		return err
	}
	var all error
	for _, w := range wrong {
		s := share{name: "wrong", memory: gib, compute: 300}
		request := object{"deviceClassName": "gpu.weir.dev"}
		w.change(&s, request)
		for path, o := range t.forms(&s, request) {
			err := t.client.Create(ctx, path+dry, o)
			if err == nil || !strings.Contains(err.Error(), w.want) {
				all = errors.Join(all, fmt.Errorf("%v: want %q: %w", o["spec"], w.want, err))
			}
		}
	}
	for _, change := range right {
		s := share{name: "right", memory: gib, compute: 300}
		change(&s)
		for path, o := range t.forms(&s, nil) {
			all = errors.Join(all, t.client.Create(ctx, path+dry, o))
		}
	}
	return all
}

// forms are a share as a claim and as a template, whose request has more fields.
func (t *tester) forms(s *share, request object) map[string]object {
	claim, template := s.claim("gpu.weir.dev"), s.template("gpu.weir.dev")
	for _, spec := range []any{claim["spec"], template["spec"].(object)["spec"]} {
		devices := spec.(object)["devices"].(object)
		exactly := devices["requests"].([]object)[0]["exactly"].(object)
		for k, v := range request {
			exactly[k] = v
		}
	}
	return map[string]object{claimsPath: claim, templatesPath: template}
}

// active waits until the server goes by the policies: it takes them in some time after they are
// made.
func (t *tester) active(ctx context.Context) error {
	s := share{name: "wrong", memory: gib, compute: 300, parameters: parameters("x", 1)}
	return t.until(ctx, "a policy that refuses", func() (bool, error) {
		for path, o := range t.forms(&s, nil) {
			if err := t.client.Create(ctx, path+dry, o); err == nil {
				return false, errors.New("it is taken")
			}
		}
		return true, nil
	})
}
