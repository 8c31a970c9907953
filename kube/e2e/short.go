package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/weirgpu/weir/kube/dra"
)

// notes are annotations of weir's, by what follows their prefix.
func notes(fields ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(fields); i += 2 {
		m[dra.AnnotationPrefix+fields[i]] = fields[i+1]
	}
	return m
}

// annotatedPod is a pod that asks by annotations.
func annotatedPod(name string, annotations map[string]string) object {
	p := pod(name, nil, object{})
	p["metadata"].(object)["annotations"] = annotations
	return p
}

// wrongNotes are annotations that can never be, with what the server's answer is to have in it.
var wrongNotes = []struct {
	want  string
	notes map[string]string
}{
	{"unknown annotation", notes("memroy", "8Gi")},
	{"weir.dev/memory: want a size", notes("memory", "8 GB")},
	{"weir.dev/memory: want a size", notes("memory", "0")},
	{"weir.dev/compute: want a part", notes("compute", "half")},
	{"weir.dev/compute: want a part", notes("compute", "1001m")},
	{"weir.dev/limit: want a part", notes("limit", "0")},
	{"weir.dev/limit: want a part", notes("limit", "1.5")},
	{"limit is below weir.dev/compute", notes("compute", "300m", "limit", "0.2")},
	{"weir.dev/class: want latency", notes("class", "urgent")},
	{"weir.dev/qos: want Burstable", notes("qos", "Best")},
	{"BestEffort is of class", notes("qos", "BestEffort", "class", "latency")},
	{"Guaranteed is compute", notes("qos", "Guaranteed")},
	{"Guaranteed is compute", notes("qos", "Guaranteed", "compute", "300m", "limit", "0.5")},
}

// rightNotes are annotations that become claims.
var rightNotes = []map[string]string{
	notes("memory", "8Gi"),
	notes("compute", "1"),
	notes("memory", "1k", "compute", "0.25", "limit", "250m", "class", "latency"),
	notes("qos", "Guaranteed", "compute", "300m", "limit", "0.3"),
	notes("memory", "2Ti", "qos", "BestEffort", "class", "opportunistic"),
	notes("memory", "1Mi", "topology", "restricted", "gang", "g", "gang-size", "1"),
}

// annotated holds that the server makes claims of annotations, by the same names as package dra,
// and refuses what it refuses.
func (t *tester) annotated(ctx context.Context) error {
	err := t.until(ctx, "a policy that makes claims", func() (bool, error) {
		p, err := t.admitted(ctx, annotatedPod("waits", rightNotes[0]))
		return err == nil && len(p.Spec.ResourceClaims) == 1, err
	})
	if err != nil {
		return err
	}
	for _, w := range wrongNotes {
		if _, ok, e := dra.ParseShort(w.notes); ok && e == nil {
			err = errors.Join(err, fmt.Errorf("%v: package dra takes it", w.notes))
		}
		_, e := t.admitted(ctx, annotatedPod("wrong", w.notes))
		if e == nil || !strings.Contains(e.Error(), w.want) {
			err = errors.Join(err, fmt.Errorf("%v: want %q: %w", w.notes, w.want, e))
		}
	}
	for _, n := range rightNotes {
		err = errors.Join(err, t.becomes(ctx, n))
	}
	// A pod that has annotations of others only is left as it is.
	p, e := t.admitted(ctx, annotatedPod("other", notes("gang", "g", "gang-size", "1")))
	if e != nil || len(p.Spec.ResourceClaims) > 0 {
		e = errors.Join(e, fmt.Errorf("a gang became claims: %+v", p.Spec.ResourceClaims))
	}
	own := annotatedPod("own", rightNotes[0])
	own["spec"].(object)["resourceClaims"] = []object{{"name": dra.ShortClaim,
		"resourceClaimName": "mine"}}
	if _, e := t.admitted(ctx, own); e == nil || !strings.Contains(e.Error(), "another name") {
		err = errors.Join(err, fmt.Errorf("a claim of its own by that name: %w", e))
	}
	return errors.Join(err, e)
}

// becomes holds one pod's claims against its annotations.
func (t *tester) becomes(ctx context.Context, n map[string]string) error {
	s, ok, err := dra.ParseShort(n)
	if err != nil || !ok {
		return fmt.Errorf("%v: package dra refuses it: %w", n, err)
	}
	o := annotatedPod("right", n)
	spec := o["spec"].(object)
	spec["containers"] = append(spec["containers"].([]object),
		object{"name": "helper", "image": podImage})
	p, err := t.admitted(ctx, o)
	if err != nil {
		return fmt.Errorf("%v: %w", n, err)
	}
	c := p.Spec.ResourceClaims
	if len(c) != 1 || c[0].Name != dra.ShortClaim ||
		c[0].ResourceClaimTemplateName != s.Template() {
		return fmt.Errorf("%v: claims %+v: want template %s", n, c, s.Template())
	}
	if len(p.Spec.Containers) != 2 {
		return fmt.Errorf("%v: containers %+v: want two", n, p.Spec.Containers)
	}
	for _, k := range p.Spec.Containers {
		if len(k.Resources.Claims) != 1 || k.Resources.Claims[0].Name != dra.ShortClaim {
			return fmt.Errorf("%v: container %s has claims %+v", n, k.Name, k.Resources.Claims)
		}
	}
	return nil
}

// admittedPod is a pod as far as admission changes it.
type admittedPod struct {
	Spec struct {
		ResourceClaims []struct{ Name, ResourceClaimTemplateName string }
		Containers     []struct {
			Name      string
			Resources struct{ Claims []struct{ Name string } }
		}
	}
}

// admitted is what the server would make of a pod.
func (t *tester) admitted(ctx context.Context, o object) (p admittedPod, err error) {
	text, err := json.Marshal(o)
	if err != nil {
		return p, err
	}
	out, err := t.cluster.Kubectl(ctx, string(text), "create", "--dry-run=server", "-o", "json",
		"-f", "-")
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal([]byte(out), &p)
}

// short has a pod ask for a part of a device by annotations, and run.
func (t *tester) short(ctx context.Context) error {
	s := share{name: "brief", memory: 5 * gib, compute: 300}
	p := annotatedPod(s.name, notes("memory", "5Gi", "compute", "300m"))
	if err := t.client.Create(ctx, podsPath, p); err != nil {
		return err
	}
	if err := t.memoryOf(ctx, &s); err != nil {
		return err
	}
	return t.back(ctx)
}
