package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weirgpu/weir/kube/dra"
	"github.com/weirgpu/weir/kube/e2e/cluster"
)

const (
	gib       = int64(1) << 30
	deviceMem = 16 * gib
	// context is what the fake driver takes for a program's context (fakecuda, WEIR_FAKE_CONTEXT).
	context256 = int64(256) << 20
	kernelUS   = 5000
	kernelText = "5000"
)

func number(n int64) string { return strconv.FormatInt(n, 10) }
func milli(n int) string    { return strconv.Itoa(n) + "m" }

// shares fill two devices whole, to the byte and to the thousandth, by the order in which they are
// made.
var shares = []share{
	{name: "a0", memory: 5*gib + 1, compute: 400}, {name: "a1", memory: 4*gib + 3, compute: 300},
	{name: "a2", memory: 4*gib + 5, compute: 200}, {name: "a3", memory: 3*gib - 9, compute: 100},
	{name: "b0", memory: 7 * gib, compute: 100}, {name: "b1", memory: 4*gib + 1, compute: 200},
	{name: "b2", memory: 3*gib - 1, compute: 300}, {name: "b3", memory: 2 * gib, compute: 400},
}

// runtimeDir is the agent's folder on the node.
func (t *tester) runtimeDir() string { return filepath.Join(t.dir, "run") }

func (t *tester) agent() dra.Local { return dra.Local{Dir: t.runtimeDir()} }

// values are the chart's, with folders of the test's own for those of the machine.
func (t *tester) values() map[string]any {
	kubelet, cdi := "/var/lib/kubelet", "/var/run/cdi"
	if t.node != nil {
		kubelet, cdi = t.node.Kubelet, t.node.CDI
	}
	return map[string]any{"image": nodeImage, "kubelet": kubelet, "cdi": cdi,
		"hostDir": filepath.Join(t.dir, "opt"), "runtimeDir": t.runtimeDir(), "policy": "priority",
		"vendorCDI": "", "cpuMemory": "", "fakeGPUs": 2, "fakeMemory": "16GiB"}
}

// apply installs weir.
func (t *tester) apply(ctx context.Context) error {
	values, err := json.Marshal(t.values()) // which is YAML, too
	if err != nil {
		return err
	}
	_, err = t.cluster.Helm(ctx, string(values), "install", "weir",
		filepath.Join(t.source, "kube", "chart"), "--namespace", "weir", "--create-namespace",
		"--values", "-")
	return err
}

// installed waits until weir runs and has published the node's devices.
func (t *tester) installed(ctx context.Context) error {
	return t.until(ctx, "two devices in the API, well", func() (bool, error) {
		found, err := t.published(ctx)
		return len(found) == 2 && found["cuda-0"] == "" && found["cuda-1"] == "", err
	})
}

// published are the devices that the API has, each with its taints.
func (t *tester) published(ctx context.Context) (map[string]string, error) {
	var l struct {
		Items []struct {
			Spec struct {
				Driver, NodeName string
				Devices          []struct {
					Name     string
					Capacity map[string]struct{ Value string }
					Taints   []struct{ Key string }
				}
			}
		}
	}
	if err := t.client.Get(ctx, slicesPath, &l); err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, s := range l.Items {
		if s.Spec.Driver != dra.DriverName || s.Spec.NodeName != cluster.NodeName {
			return nil, fmt.Errorf("a slice of %+v", s.Spec)
		}
		for _, d := range s.Spec.Devices {
			if d.Capacity["memory"].Value != "16Gi" || d.Capacity["compute"].Value != "1" {
				return nil, fmt.Errorf("device %s has %v", d.Name, d.Capacity)
			}
			var taints []string
			for _, v := range d.Taints {
				taints = append(taints, v.Key)
			}
			all[d.Name] = strings.Join(taints, " ")
		}
	}
	return all, nil
}

// memory starts the eight pods and holds what each gets against its claim: by what its program
// could allocate, by what CUDA says, and by the agent's account.
func (t *tester) memory(ctx context.Context) error {
	for i := range shares {
		s := &shares[i]
		if err := errors.Join(t.client.Create(ctx, templatesPath, s.template("gpu.weir.dev")),
			t.client.Create(ctx, podsPath, claimPod(s.name))); err != nil {
			return err
		}
		if _, err := t.allocated(ctx, s.name); err != nil {
			return err
		}
	}
	for i := range shares {
		if err := t.memoryOf(ctx, &shares[i]); err != nil {
			return fmt.Errorf("pod %s: %w", shares[i].name, err)
		}
	}
	// The agent asks the management library twice a second.
	return t.until(ctx, "an account that is exact", func() (bool, error) {
		err := t.account(ctx)
		return err == nil, err
	})
}

// account holds what the agent says of the eight, and what the management library lists, against
// their claims.
func (t *tester) account(ctx context.Context) error {
	s, err := t.agent().Snapshot(ctx)
	if err != nil {
		return err
	}
	for i := range s.Devices {
		d := &s.Devices[i]
		if d.PromisedBytes != deviceMem || len(d.Jobs) != len(shares)/2 {
			return fmt.Errorf("%s: %d bytes promised to %d jobs: want %d and %d", d.Device,
				d.PromisedBytes, len(d.Jobs), deviceMem, len(shares)/2)
		}
		for k := range d.Jobs {
			j := &d.Jobs[k]
			measured := uint64(0)
			if len(j.Processes) == 1 && j.Processes[0].MemoryMeasuredBytes != nil {
				measured = *j.Processes[0].MemoryMeasuredBytes
			}
			if c := uint64(j.MemoryCapBytes); j.MemoryUsedBytes != c || measured != c {
				return fmt.Errorf("%s: of %s, whose cap is %d, the agent counts %d bytes, and "+
					"the management library %d", d.Device, j.Name, c, j.MemoryUsedBytes, measured)
			}
		}
	}
	return nil
}

// allocated waits until the claim of a pod is allocated, and returns it.
func (t *tester) allocated(ctx context.Context, pod string) (c claimItem, err error) {
	err = t.until(ctx, "an allocated claim of pod "+pod, func() (bool, error) {
		pods, err := t.pods(ctx)
		if err != nil {
			return false, err
		}
		name := pods[pod].Status.ExtendedResourceClaimStatus.ResourceClaimName
		if s := pods[pod].Status.ResourceClaimStatuses; len(s) > 0 {
			name = s[0].ResourceClaimName
		}
		if name == "" {
			return false, nil
		}
		if err := t.client.Get(ctx, claimsPath+"/"+name, &c); err != nil {
			return false, err
		}
		return len(c.Status.Allocation.Devices.Results) == 1, nil
	})
	return c, err
}

func (t *tester) memoryOf(ctx context.Context, s *share) error {
	c, err := t.allocated(ctx, s.name)
	if err != nil {
		return err
	}
	var h hello
	if err := t.until(ctx, "a program that has its memory", func() (ok bool, err error) {
		pods, err := t.pods(ctx)
		if err != nil {
			return false, err
		}
		p := pods[s.name]
		if h, ok, err = t.first(&p); !ok && err == nil && len(p.Status.ContainerStatuses) > 0 {
			w := p.Status.ContainerStatuses[0].State.Waiting
			err = fmt.Errorf("%s: %s %s", p.Status.Phase, w.Reason, w.Message)
		}
		return ok, err
	}); err != nil {
		return err
	}
	device := c.Status.Allocation.Devices.Results[0].Device
	if h.Got+context256 != s.memory || h.Total != s.memory {
		return fmt.Errorf("claims %d bytes, got %d and a context of %d, and CUDA says %d",
			s.memory, h.Got, context256, h.Total)
	}
	if !strings.HasSuffix(h.UUID, strings.TrimPrefix(device, "cuda-")) {
		return fmt.Errorf("was given %s, and its program runs on %s", device, h.UUID)
	}
	return nil
}

// never has a claim of more than any device, and one of a byte more than is left.
func (t *tester) never(ctx context.Context) error {
	for _, c := range []struct {
		share
		words []string
	}{
		{share{name: "toobig", memory: 17 * gib, compute: 100},
			[]string{"WeirNeverFits", "asks for 17GiB", "largest there is has 16GiB", "at most"}},
		{share{name: "toolate", memory: 1}, []string{"WeirNoRoom", "most free memory is 0B"}},
	} {
		if err := errors.Join(t.client.Create(ctx, templatesPath, c.template("gpu.weir.dev")),
			t.client.Create(ctx, podsPath, claimPod(c.name))); err != nil {
			return err
		}
		text, err := t.event(ctx, eventsPath, c.name, c.words...)
		if err != nil {
			return err
		}
		t.say("%s: %s", c.name, text)
		if err := t.client.Delete(ctx, podsPath+"/"+c.name); err != nil {
			return err
		}
	}
	return nil
}

// told has what admission lets pass, as it is a class that contradicts a claim: the driver refuses
// it, and the kubelet says so of the pod.
func (t *tester) told(ctx context.Context) error {
	if err := t.client.Delete(ctx, podsPath+"/a3"); err != nil {
		return err
	}
	class := object{"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
		"metadata": object{"name": "low.example"}, "spec": object{
			"selectors": []object{{"cel": object{"expression": `device.driver == "gpu.weir.dev"`}}},
			"config": []object{{"opaque": object{"driver": "gpu.weir.dev",
				"parameters": parameters("limit", "50m")}}}}}
	s := share{name: "contrary", memory: gib, compute: 100}
	if err := errors.Join(t.client.Create(ctx, classesPath, class),
		t.client.Create(ctx, templatesPath, s.template("low.example")),
		t.client.Create(ctx, podsPath, claimPod(s.name))); err != nil {
		return err
	}
	text, err := t.event(ctx, eventsPath, s.name, "limit 50m is below compute 100m", "raise limit")
	if err != nil {
		return err
	}
	t.say("%s: %s", s.name, text)
	return t.client.Delete(ctx, podsPath+"/"+s.name)
}

// parameters are a claim's for the driver, with fields beyond what all have.
func parameters(fields ...any) object {
	p := object{"apiVersion": dra.ParametersVersion, "kind": dra.ParametersKind}
	for i := 0; i+1 < len(fields); i += 2 {
		p[fields[i].(string)] = fields[i+1]
	}
	return p
}

// back deletes all pods, and waits until the agent, where there is one, has promised nothing and no
// specification is left.
func (t *tester) back(ctx context.Context) error {
	pods, err := t.pods(ctx)
	if err != nil {
		return err
	}
	for name := range pods {
		if err := t.client.Delete(ctx, podsPath+"/"+name); err != nil {
			return err
		}
	}
	if t.plain {
		return nil
	}
	return t.until(ctx, "an agent that has promised nothing", func() (bool, error) {
		return t.nothingLeft(ctx)
	})
}

func (t *tester) nothingLeft(ctx context.Context) (bool, error) {
	s, err := t.agent().Snapshot(ctx)
	if err != nil {
		return false, err
	}
	for i := range s.Devices {
		if d := &s.Devices[i]; d.PromisedBytes != 0 || len(d.Jobs) != 0 {
			return false, fmt.Errorf("%s: %d bytes promised to %d jobs", d.Device,
				d.PromisedBytes, len(d.Jobs))
		}
	}
	left, err := os.ReadDir(t.node.CDI)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("specification %s is left", left[0].Name())
	}
	return len(left) == 0, err
}

// extended has a pod ask in the short form.
func (t *tester) extended(ctx context.Context) error {
	p := pod("short", nil, object{"limits": object{"weir.dev/gpu": "1"}})
	if err := t.client.Create(ctx, podsPath, p); err != nil {
		return err
	}
	whole := share{name: "short", memory: deviceMem}
	if err := t.memoryOf(ctx, &whole); err != nil {
		return err
	}
	return t.back(ctx)
}

// uninstall takes the chart's objects away, and looks at what is left.
func (t *tester) uninstall(ctx context.Context) error {
	if _, err := t.cluster.Helm(ctx, "", "uninstall", "weir", "--namespace", "weir"); err != nil {
		return err
	}
	if err := t.until(ctx, "no device in the API", func() (bool, error) {
		found, err := t.published(ctx)
		return len(found) == 0, err
	}); err != nil {
		return err
	}
	return t.until(ctx, "no pod of weir", func() (bool, error) {
		var l podList
		err := t.client.Get(ctx, "/api/v1/namespaces/weir/pods", &l)
		return len(l.Items) == 0, err
	})
}
