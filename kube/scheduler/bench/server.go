package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// chart has the chart's policy for finalizers of claims in the server, or has it not, and waits
// until the server goes by that.
func (b *bench) chart(ctx context.Context, on bool) error {
	if b.early == "" {
		return nil
	}
	objects, err := decoded(b.early)
	if err != nil {
		return err
	}
	for _, o := range objects {
		err := b.put(ctx, o, on)
		if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			return err
		}
	}
	for {
		has, err := b.protected(ctx)
		if err != nil || has == on {
			return err
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// put makes an object of the chart, or takes it away.
func (b *bench) put(ctx context.Context, o runtime.Object, on bool) (err error) {
	admission := b.client.AdmissionregistrationV1()
	policies := admission.MutatingAdmissionPolicies()
	bindings := admission.MutatingAdmissionPolicyBindings()
	switch o := o.(type) {
	case *admissionv1.MutatingAdmissionPolicy:
		if !on {
			return policies.Delete(ctx, o.Name, metav1.DeleteOptions{})
		}
		_, err = policies.Create(ctx, o, metav1.CreateOptions{})
	case *admissionv1.MutatingAdmissionPolicyBinding:
		if !on {
			return bindings.Delete(ctx, o.Name, metav1.DeleteOptions{})
		}
		_, err = bindings.Create(ctx, o, metav1.CreateOptions{})
	default:
		err = fmt.Errorf("%s has an object of %T", b.early, o)
	}
	return err
}

// decoded are the objects in a file of YAML.
func decoded(file string) (all []runtime.Object, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for part := range bytes.SplitSeq(text, []byte("---\n")) {
		o, _, err := scheme.Codecs.UniversalDeserializer().Decode(part, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, o)
	}
	return all, nil
}

// protected reports whether a new claim has the finalizer by which it is allocated.
func (b *bench) protected(ctx context.Context) (bool, error) {
	s := &shape{devices: 1, units: 1, bytes: 1}
	c, err := b.client.ResourceV1().ResourceClaims("default").Create(ctx,
		&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "dry"}, Spec: s.claim()},
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err == nil && slices.Contains(c.Finalizers, resourceapi.Finalizer), err
}

// requests are how often the server was asked for what, by verb and resource.
func (b *bench) requests(ctx context.Context) (map[string]float64, error) {
	text, err := b.client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]float64{}
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		labels, ok := strings.CutPrefix(s.Text(), "apiserver_request_total{")
		if !ok {
			continue
		}
		labels, value, _ := strings.Cut(labels, "} ")
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("metrics: %q: %w", s.Text(), err)
		}
		all[label(labels, "verb")+" "+strings.TrimSuffix(label(labels, "resource")+"/"+
			label(labels, "subresource"), "/")] += n
	}
	return all, nil
}

// label is the value of a label in a line of metrics.
func label(labels, name string) string {
	for part := range strings.SplitSeq(labels, ",") {
		if v, ok := strings.CutPrefix(part, name+"="); ok {
			return strings.Trim(v, `"`)
		}
	}
	return ""
}

// perPod is what was asked between two times for each of n pods: what comes at least to one for ten
// of them.
func perPod(before, after map[string]float64, n float64) map[string]float64 {
	all := map[string]float64{}
	for what, v := range after {
		if p := (v - before[what]) / n; p >= 0.1 {
			all[what] = p
		}
	}
	return all
}
