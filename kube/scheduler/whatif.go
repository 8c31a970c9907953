package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/weirgpu/weir/kube/dra"
	"github.com/weirgpu/weir/kube/scheduler/plugin"
)

// whatIf says where the pods of a file would go in a cluster as it is now.
func whatIf(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	f := flag.NewFlagSet("what-if", flag.ContinueOnError)
	kubeconfig := f.String("kubeconfig", "", "of the cluster (default: as kubectl finds it)")
	path := f.String("f", "-", "file of pods, and of claims and claim templates if the cluster "+
		"does not have them; - is standard input")
	copies := f.Int("copies", 1, "how many of each pod")
	policy := f.String("policy", "prices", "how they are placed")
	asJSON := f.Bool("json", false, "print JSON")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *copies < 1 || f.NArg() > 0 {
		return errors.New("what-if: want -copies of 1 or more, and no arguments but flags")
	}
	if *path != "-" {
		file, err := os.Open(*path)
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	}
	w, err := wish(in, *copies)
	if err != nil {
		return fmt.Errorf("%s: %w", *path, err)
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = *kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	all, err := plugin.WhatIf(ctx, client, &plugin.Args{Policy: *policy, Driver: dra.DriverName}, w)
	if err != nil {
		return err
	}
	return show(out, all, *asJSON)
}

// wish reads objects; of pods there are some copies.
func wish(in io.Reader, copies int) (*plugin.Wish, error) {
	w := &plugin.Wish{}
	r := yaml.NewYAMLReader(bufio.NewReader(in))
	for {
		text, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if strings.TrimSpace(string(text)) == "" {
			continue
		}
		o, _, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
		if err != nil {
			return nil, err
		}
		switch o := o.(type) {
		case *v1.Pod:
			o.Namespace = orDefault(o.Namespace)
			w.Pods = append(w.Pods, copied(o, copies)...)
		case *resourceapi.ResourceClaim:
			o.Namespace = orDefault(o.Namespace)
			w.Claims = append(w.Claims, o)
		case *resourceapi.ResourceClaimTemplate:
			o.Namespace = orDefault(o.Namespace)
			w.Templates = append(w.Templates, o)
		default:
			return nil, fmt.Errorf("%T: want pods, claims and claim templates", o)
		}
	}
	if len(w.Pods) == 0 {
		return nil, errors.New("has no pod")
	}
	return w, nil
}

func orDefault(namespace string) string {
	if namespace == "" {
		return v1.NamespaceDefault
	}
	return namespace
}

func copied(pod *v1.Pod, copies int) (all []*v1.Pod) {
	if copies == 1 {
		return []*v1.Pod{pod}
	}
	for i := range copies {
		c := pod.DeepCopy()
		c.Name = fmt.Sprintf("%s-%d", pod.Name, i)
		all = append(all, c)
	}
	return all
}

func show(out io.Writer, all []plugin.Answer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(all)
	}
	for i := range all {
		a := &all[i]
		line := fmt.Sprintf("%s: nowhere: %s", a.Pod, a.Why)
		if a.Node != "" {
			line = fmt.Sprintf("%s: node %s", a.Pod, a.Node)
			if len(a.Devices) > 0 {
				line += ", " + strings.Join(a.Devices, " ")
			}
			if len(a.Victims) > 0 {
				line += "; these have to go: " + strings.Join(a.Victims, " ")
			}
		}
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}
