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
	{"compute: want thousandths", func(_ *share, request object) {
		request["capacity"] = object{"requests": object{"memory": "1Gi", "compute": "0.0005"}}
	}},
	{"in whole bytes", func(_ *share, request object) {
		request["capacity"] = object{"requests": object{"memory": "1500m"}}
	}},
	{"limit: want a part", with(parameters("limit", "0.3005"))},
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

// Device classes that are not the chart's: one for weir's devices, and two for those of others.
const (
	otherName  = "other-name.example"
	otherGPUs  = "other-gpus.example"
	eitherGPUs = "either-gpus.example"
)

var otherClasses = map[string]string{
	otherName:  `device.driver == "gpu.weir.dev" && device.attributes["gpu.weir.dev"].model != "x"`,
	otherGPUs:  `device.driver != "gpu.weir.dev"`,
	eitherGPUs: `device.driver == "gpu.weir.dev" || device.driver == "gpu.example.com"`,
}

// refused holds that each wrong claim and template is refused with its reason, and each right one
// taken, by whichever class it asks for weir's devices, and as an alternative, too.
func (t *tester) refused(ctx context.Context) error {
	for name, selector := range otherClasses {
		if err := t.client.Create(ctx, classesPath, object{"apiVersion": "resource.k8s.io/v1",
			"kind": "DeviceClass", "metadata": object{"name": name}, "spec": object{
				"selectors": []object{{"cel": object{"expression": selector}}}}}); err != nil {
			return err
		}
	}
	if err := t.active(ctx); err != nil {
		return err
	}
	var all error
	for _, w := range wrong {
		s, request := share{name: "wrong", memory: gib, compute: 300}, object{}
		w.change(&s, request)
		for _, class := range []string{"gpu.weir.dev", otherName} {
			for path, o := range forms(&s, class, request) {
				all = errors.Join(all, t.isRefused(ctx, path, o, w.want))
			}
		}
	}
	for _, change := range right {
		s := share{name: "right", memory: gib, compute: 300}
		change(&s)
		for _, class := range []string{"gpu.weir.dev", otherName} {
			for path, o := range forms(&s, class, nil) {
				all = errors.Join(all, t.client.Create(ctx, path, o))
			}
		}
	}
	return errors.Join(all, t.leftAlone(ctx))
}

func (t *tester) isRefused(ctx context.Context, path string, o object, want string) error {
	err := t.client.Create(ctx, path, o)
	if err == nil || !strings.Contains(err.Error(), want) {
		return fmt.Errorf("%v: want %q: %w", o["spec"], want, err)
	}
	return nil
}

// leftAlone holds that what may be for devices of others is taken as Kubernetes takes it.
func (t *tester) leftAlone(ctx context.Context) (all error) {
	s := share{name: "foreign", memory: gib, compute: 2000}
	for _, class := range []string{otherGPUs, eitherGPUs, "unknown.example"} {
		for path, o := range forms(&s, class, object{"count": 2}) {
			all = errors.Join(all, t.client.Create(ctx, path, o))
		}
	}
	return all
}

// forms are a share as a claim and as a template, each with a request that has more fields and with
// such a one as an alternative to another; by paths at which the server keeps nothing.
func forms(s *share, class string, request object) map[string]object {
	all := map[string]object{}
	for i, form := range []string{"", "&"} {
		claim, template := s.claim(class), s.template(class)
		for _, spec := range []any{claim["spec"], template["spec"].(object)["spec"]} {
			r := spec.(object)["devices"].(object)["requests"].([]object)[0]
			exactly := r["exactly"].(object)
			for k, v := range request {
				exactly[k] = v
			}
			if i == 0 {
				continue
			}
			delete(r, "exactly")
			exactly["name"] = "second"
			r["firstAvailable"] = []object{
				{"name": "first", "deviceClassName": "gpu.example.com"}, exactly}
		}
		all[claimsPath+dry+form], all[templatesPath+dry+form] = claim, template
	}
	return all
}

// active waits until the server goes by the policies: it takes them in some time after they are
// made.
func (t *tester) active(ctx context.Context) error {
	s := share{name: "wrong", memory: gib, compute: 300, parameters: parameters("x", 1)}
	return t.until(ctx, "a policy that refuses", func() (bool, error) {
		for path, o := range forms(&s, "gpu.weir.dev", nil) {
			if err := t.client.Create(ctx, path, o); err == nil {
				return false, errors.New("it is taken")
			}
		}
		return t.otherActive(ctx)
	})
}

// otherActive reports whether the server goes by the policies for classes of other names, which
// look at what is asked for only.
func (t *tester) otherActive(ctx context.Context) (bool, error) {
	s := share{name: "wrong", memory: gib, compute: 2000}
	for path, o := range forms(&s, otherName, nil) {
		if err := t.client.Create(ctx, path, o); err == nil {
			return false, errors.New("it is taken by a class of another name")
		}
	}
	return true, nil
}
