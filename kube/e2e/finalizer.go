package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weirgpu/weir/kube/dra"
	"github.com/weirgpu/weir/kube/e2e/cluster"
)

// protection is the finalizer without which no claim is allocated (resourceapi.Finalizer).
const protection = "resource.kubernetes.io/delete-protection"

// Name of a claim from before weir's policies.
const olderClaim = "older"

// older makes a claim that weir's policies would refuse, with a finalizer.
func (t *tester) older(ctx context.Context) error {
	s := share{name: olderClaim, memory: gib, compute: 2000}
	c := s.claim("gpu.weir.dev")
	c["metadata"].(object)["finalizers"] = []string{protection}
	return t.client.Create(ctx, claimsPath, c)
}

// olderGoes holds that the claim from before can be deleted, which needs its finalizer to be taken.
func (t *tester) olderGoes(ctx context.Context) error { return t.goes(ctx, olderClaim) }

// goes deletes a claim, and waits until it is gone.
func (t *tester) goes(ctx context.Context, name string) error {
	if err := t.client.Delete(ctx, claimsPath+"/"+name); err != nil {
		return err
	}
	return t.gone(ctx, name)
}

func (t *tester) gone(ctx context.Context, name string) error {
	return t.until(ctx, "no claim "+name, func() (bool, error) {
		has, err := t.client.Has(ctx, claimsPath+"/"+name)
		return !has, err
	})
}

// finalized holds which claims have the finalizer when they are made, and that they go, though they
// never were allocated.
func (t *tester) finalized(ctx context.Context) error {
	mine, other := []string{protection}, []string(nil)
	for _, c := range []struct {
		name    string
		classes []string
		with    []string // finalizers that it is made with
		want    []string
	}{
		{"gpu", []string{"gpu.weir.dev"}, nil, mine},
		{"both", []string{"gpu.weir.dev", "cpu.weir.dev"}, nil, mine},
		{"has-it", []string{"gpu.weir.dev"}, mine, mine},
		{"foreign", []string{"gpu.example.com"}, nil, other},
		{"mixed", []string{"gpu.weir.dev", "gpu.example.com"}, nil, other},
		{"none", nil, nil, other},
	} {
		if err := t.client.Create(ctx, claimsPath, claimOf(c.name, c.classes, c.with)); err != nil {
			return err
		}
		var made claimItem
		if err := t.client.Get(ctx, claimsPath+"/"+c.name, &made); err != nil {
			return err
		}
		if !slices.Equal(made.Metadata.Finalizers, c.want) {
			return fmt.Errorf("claim %s has finalizers %q: want %q", c.name,
				made.Metadata.Finalizers, c.want)
		}
		if err := t.goes(ctx, c.name); err != nil {
			return err
		}
	}
	return nil
}

// claimOf is a claim of a whole device of each of some classes.
func claimOf(name string, classes, finalizers []string) object {
	var requests []object
	for i, class := range classes {
		requests = append(requests, object{"name": fmt.Sprint("r", i),
			"exactly": object{"deviceClassName": class}})
	}
	return object{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
		"metadata": object{"name": name, "finalizers": finalizers},
		"spec":     object{"devices": object{"requests": requests}}}
}

// handed has two pods have one claim after each other, and one pod a claim that goes with it.
func (t *tester) handed(ctx context.Context) error {
	if err := t.played(ctx); err != nil {
		return err
	}
	s := share{name: "handed", memory: gib, compute: 100}
	if err := t.client.Create(ctx, claimsPath, s.claim("gpu.weir.dev")); err != nil {
		return err
	}
	if err := t.onceMore(ctx, &s, "first", true); err != nil {
		return fmt.Errorf("the first pod: %w", err)
	}
	if err := t.onceMore(ctx, &s, "second", false); err != nil {
		return fmt.Errorf("the second pod: %w", err)
	}
	if err := t.goes(ctx, s.name); err != nil {
		return err
	}
	return t.owned(ctx)
}

// owned has a pod have a claim of a template, which goes with it.
func (t *tester) owned(ctx context.Context) error {
	s := share{name: "own", memory: gib, compute: 100}
	if err := errors.Join(t.client.Create(ctx, templatesPath, s.template("gpu.weir.dev")),
		t.client.Create(ctx, podsPath, t.anywhere(claimPod(s.name)))); err != nil {
		return err
	}
	c, err := t.allocated(ctx, s.name)
	if err == nil {
		err = t.back(ctx)
	}
	if err != nil {
		return err
	}
	return t.gone(ctx, c.Metadata.Name)
}

// anywhere has a pod go to a node that nobody plays a kubelet for, where there is no other.
func (t *tester) anywhere(p object) object {
	if t.plain {
		p["spec"].(object)["tolerations"] = []object{{"operator": "Exists"}}
	}
	return p
}

// played makes a node with a device that nobody is behind, where there is no other.
func (t *tester) played(ctx context.Context) error {
	if !t.plain {
		return nil
	}
	size := object{"cpu": "4", "memory": "16Gi", "pods": "10"}
	zero := object{"default": "0", "validRange": object{"min": "0"}}
	return errors.Join(
		t.client.Create(ctx, "/api/v1/nodes", object{"apiVersion": "v1", "kind": "Node",
			"metadata": object{"name": cluster.NodeName},
			"status":   object{"capacity": size, "allocatable": size}}),
		t.client.Create(ctx, slicesPath, object{"apiVersion": "resource.k8s.io/v1",
			"kind": "ResourceSlice", "metadata": object{"name": "played"},
			"spec": object{"driver": dra.DriverName, "nodeName": cluster.NodeName,
				"pool": object{"name": cluster.NodeName, "generation": 1, "resourceSliceCount": 1},
				"devices": []object{{"name": "cuda-0", "allowMultipleAllocations": true,
					"attributes": object{"type": object{"string": "gpu"}},
					"capacity": object{"memory": object{"value": "16Gi"},
						"compute": object{"value": "1", "requestPolicy": zero}}}}}}))
}

// onceMore has a pod have a claim and go. A claim that no pod had is allocated by one write.
func (t *tester) onceMore(ctx context.Context, s *share, name string, fresh bool) error {
	p := pod(name, object{"resourceClaims": []object{{"name": "gpu",
		"resourceClaimName": s.name}}}, object{"claims": []object{{"name": "gpu"}}})
	if err := t.client.Create(ctx, podsPath, t.anywhere(p)); err != nil {
		return err
	}
	var c claimItem
	has := func(devices int) func() (bool, error) {
		return func() (bool, error) {
			c = claimItem{}
			err := t.client.Get(ctx, claimsPath+"/"+s.name, &c)
			return len(c.Status.Allocation.Devices.Results) == devices, err
		}
	}
	if err := t.until(ctx, "an allocated claim", has(1)); err != nil {
		return err
	}
	if !slices.Equal(c.Metadata.Finalizers, []string{protection}) {
		return fmt.Errorf("an allocated claim has finalizers %q", c.Metadata.Finalizers)
	}
	for _, f := range c.Metadata.ManagedFields {
		if fresh && f.Manager == "kube-scheduler" && f.Subresource == "" {
			return errors.New("the scheduler has written more of it than what it was given")
		}
	}
	if err := t.back(ctx); err != nil {
		return err
	}
	return t.until(ctx, "a claim that is given back", has(0))
}
