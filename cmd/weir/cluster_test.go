package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// clusterTrace writes a trace of one node with two devices and three pods that want one each.
func clusterTrace(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"openb_node_list_gpu_node.csv": "sn,cpu_milli,memory_mib,gpu,model\nn,8000,1024,2,A\n",
		"openb_pod_list_x.csv": "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n" +
			"a,1000,1,1,1000\nb,1000,1,1,500\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestClusterSimulateTellsOfEachPolicy(t *testing.T) {
	dir := clusterTrace(t)
	page := filepath.Join(dir, "page.html")
	all := done(t, "cluster", "simulate", dir, "--policy", "all", "--seeds", "2", "--json",
		"--html", page).object(t, "results")
	results := all["results"].([]any)
	if len(results) != 7 {
		t.Fatalf("%d policies", len(results))
	}
	for _, r := range results {
		if r := r.(map[string]any); r["allocation"].(float64) < 0.5 || r["placed"] == 0.0 {
			t.Errorf("%v", r)
		}
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "prices") {
		t.Errorf("the page: %v", err)
	}
	done(t, "cluster", "simulate", "--pods", filepath.Join(dir, "openb_pod_list_x.csv"),
		"--json").object(t, "policy", "allocation", "fragmentation", "placed", "rejected",
		"decisions_per_s")
}

func TestClusterSimulateRefusesWhatCannotBe(t *testing.T) {
	dir := clusterTrace(t)
	for _, args := range [][]string{
		{}, {dir, "--policy", "best"}, {dir, "--seeds", "0"}, {dir, "--arrive", "0"},
		{dir, "--times"}, {t.TempDir()}, {dir, "--pods", dir}, {dir, "--nodes", "none.csv"},
	} {
		if got := weir(t, append([]string{"cluster", "simulate"}, args...)...); got.code != 2 {
			t.Errorf("%v: exit code %d, %s", args, got.code, got.talk)
		}
	}
}

// TestClusterWidths: what is printed of a cluster fits lines of 40 and of 80 columns.
func TestClusterWidths(t *testing.T) {
	t.Setenv("LC_ALL", "C")
	dir := clusterTrace(t)
	for _, width := range []int{40, 80} {
		t.Setenv("COLUMNS", strconv.Itoa(width))
		got := done(t, "cluster", "simulate", dir, "--policy", "all", "--seeds", "2")
		fits(t, "cluster simulate", got.out+got.talk, width, nil)
	}
}
