package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
)

var update = flag.Bool("update", false, "write the plain manifests anew")

const manifests = "../manifests/weir.yaml"

// render fills in the chart's templates as Helm does, as far as they use it.
func render(t *testing.T, change func(map[string]any)) string {
	t.Helper()
	text, err := os.ReadFile("../chart/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	change(values)
	files, err := filepath.Glob("../chart/templates/*.yaml")
	if err != nil || len(files) != 7 {
		t.Fatalf("%v, %v", files, err)
	}
	var all strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		tm, err := template.New(f).Option("missingkey=error").Funcs(template.FuncMap{
			"quote": func(s string) string { return `"` + s + `"` }}).Parse(string(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := tm.Execute(&all, map[string]any{"Values": values,
			"Release": map[string]any{"Namespace": "weir"}}); err != nil {
			t.Fatal(err)
		}
		all.WriteString("---\n")
	}
	return strings.TrimSuffix(all.String(), "---\n")
}

// decode reads objects as the API server does, and refuses fields that it would not know.
func decode(t *testing.T, text string) (all []runtime.Object) {
	t.Helper()
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).
		UniversalDeserializer()
	for part := range strings.SplitSeq(text, "---\n") {
		if len(bytes.TrimSpace([]byte(part))) == 0 {
			continue
		}
		o, _, err := strict.Decode([]byte(part), nil, nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, part)
		}
		all = append(all, o)
	}
	return all
}

// TestManifestsAreTheChart holds the plain manifests against the chart with its own values.
func TestManifestsAreTheChart(t *testing.T) {
	want := "# Made from kube/chart: go test . -run TestManifests -update in kube/node.\n" +
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: weir}\n---\n" +
		render(t, func(map[string]any) {})
	if *update {
		if err := os.WriteFile(manifests, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(manifests)
	if err != nil || string(got) != want {
		t.Errorf("%s is not what the chart gives: go test . -run TestManifests -update: %v",
			manifests, err)
	}
	if n := len(decode(t, want)); n != 33 {
		t.Errorf("%d objects", n)
	}
}

// TestChartAsksForWhatThereIs runs the driver's command line of the chart, with all values set and
// with none, through the parser of flags.
func TestChartAsksForWhatThereIs(t *testing.T) {
	for name, change := range map[string]func(map[string]any){
		"own values": func(map[string]any) {},
		"all":        func(v map[string]any) { v["cpuMemory"], v["fakeGPUs"] = "16GiB", 2 },
		"few":        func(v map[string]any) { v["vendorCDI"] = "" },
	} {
		found := 0
		for _, o := range decode(t, render(t, change)) {
			d, is := o.(*appsv1.DaemonSet)
			if !is {
				continue
			}
			for _, c := range d.Spec.Template.Spec.Containers {
				if c.Name != "driver" {
					continue
				}
				found++
				var s settings
				args := append(c.Command[2:], "--node-name=n")
				if err := s.parse(args); err != nil || s.Node.Shim != "/opt/weir/libweir.so" ||
					s.Dir != "/var/lib/kubelet/plugins/gpu.weir.dev" ||
					(s.CPU.MemoryBytes > 0) != (name == "all") {
					t.Errorf("%s: %+v, %v", name, s, err)
				}
			}
		}
		if found != 1 {
			t.Errorf("%s: %d drivers", name, found)
		}
	}
}

// TestExampleIsWhatTheAPITakes reads the example strictly.
func TestExampleIsWhatTheAPITakes(t *testing.T) {
	text, err := os.ReadFile("../../examples/kubernetes/pod.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(decode(t, string(text))); n != 2 {
		t.Errorf("%d objects", n)
	}
}

func TestWrongFlagsAreNamed(t *testing.T) {
	t.Setenv("NODE_NAME", "n")
	for want, args := range map[string]string{
		"--shim":       "",
		"--hook":       "--shim=x --cpu-memory=1GiB",
		"--cpu-memory": "--shim=x --hook=y --cpu-memory=lots",
		"--every":      "--shim=x --every=0s",
	} {
		var s settings
		err := s.parse(strings.Fields(args))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// TestInstallReplacesWhole installs over what is there while somebody has it open.
func TestInstallReplacesWhole(t *testing.T) {
	dir := t.TempDir()
	shim := filepath.Join(dir, "shim")
	target := filepath.Join(dir, "libweir.so")
	for _, f := range []string{shim, target} {
		if err := os.WriteFile(f, []byte(f), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open, err := os.Open(target)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := install([]string{"--shim", shim, "--to", dir}); err != nil {
		t.Fatal(err)
	}
	old := make([]byte, 200)
	n, _ := open.Read(old)
	now, err := os.ReadFile(target)
	if string(old[:n]) != target || string(now) != shim || err != nil {
		t.Errorf("%q became %q, %v", old[:n], now, err)
	}
	fi, err := os.Stat(filepath.Join(dir, "weir-node"))
	if err != nil || fi.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", fi, err)
	}
}
