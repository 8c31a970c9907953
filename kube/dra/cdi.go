package dra

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weirgpu/weir/agent"
)

// cdiVersion is the oldest version of the specification that has all that is written here, so that
// runtimes of any age take it.
const cdiVersion = "0.6.0"

// cdiKind is the kind of all devices that the driver writes.
const cdiKind = DriverName + "/claim"

// Paths in containers.
const (
	containerDir  = "/run/weir"
	containerShim = "/opt/weir/libweir.so"
	containerFake = "/opt/weir/fake"
	containerGPU  = "/run/weir-gpu"
)

// Node says where on the host the things are that containers get.
type Node struct {
	// Runtime is the agent's runtime folder, and UID the agent's user.
	Runtime string
	UID     int
	// Shim is the compiled library for preloading.
	Shim string
	// FakeDriver is the folder of the fake driver's libraries, and FakeState that of its devices,
	// for devices of the fake driver.
	FakeDriver, FakeState string
	// Hook is the program that holds a container to a part of the CPU; see [Hold]. It is called as
	// Hook hold --memory BYTES --limit THOUSANDTHS --processors N.
	Hook string
	// Vendor is the CDI kind under which the driver of real GPUs is brought into containers, such
	// as nvidia.com/gpu; empty: it is there by other means.
	Vendor string
}

// spec is a CDI specification, as far as it is used here (SPEC.md, "CDI JSON Specification").
type spec struct {
	Version string      `json:"cdiVersion"`
	Kind    string      `json:"kind"`
	Devices []cdiDevice `json:"devices"`
}

type cdiDevice struct {
	Name  string `json:"name"`
	Edits edits  `json:"containerEdits"`
}

type edits struct {
	Env    []string `json:"env,omitempty"`
	Mounts []mount  `json:"mounts,omitempty"`
	Hooks  []hook   `json:"hooks,omitempty"`
}

type mount struct {
	Host      string   `json:"hostPath"`
	Container string   `json:"containerPath"`
	Options   []string `json:"options"`
}

type hook struct {
	Name    string   `json:"hookName"`
	Path    string   `json:"path"`
	Args    []string `json:"args"`
	Timeout int      `json:"timeout"`
}

// specName is the file of a claim.
func specName(uid string) string { return DriverName + "-claim_" + uid + ".json" }

// cdiName is the name of a job's device among all of its kind.
func cdiName(uid string, j *Job) string {
	return uid + "." + strings.ReplaceAll(j.Request, "/", ".")
}

// ids are the CDI devices that a container of the job gets.
func (n *Node) ids(uid string, j *Job, d Device) []string {
	ids := []string{cdiKind + "=" + cdiName(uid, j)}
	if uuid, _ := d.Attributes["uuid"].(string); n.Vendor != "" && !d.CPU && !d.Fake && uuid != "" {
		ids = append(ids, n.Vendor+"="+uuid)
	}
	return ids
}

// spec writes how containers come into the jobs of a claim.
func (n *Node) spec(uid string, jobs []Job, devices map[string]Device) ([]byte, error) {
	s := spec{Version: cdiVersion, Kind: cdiKind}
	for i := range jobs {
		j := &jobs[i]
		d, ok := devices[j.Device]
		if !ok {
			return nil, fmt.Errorf("device %s: is not there", j.Device)
		}
		s.Devices = append(s.Devices, cdiDevice{cdiName(uid, j), n.edits(j, d)})
	}
	return json.MarshalIndent(s, "", " ")
}

func (n *Node) edits(j *Job, d Device) edits {
	switch {
	case j.Admin:
		return edits{Env: []string{"WEIR_RUNTIME_DIR=" + containerDir},
			Mounts: []mount{bind(n.Runtime, containerDir, "ro")}}
	case d.CPU:
		return edits{Hooks: []hook{{"createRuntime", n.Hook, []string{filepath.Base(n.Hook), "hold",
			"--memory", strconv.FormatInt(int64(j.Share.Memory), 10),
			"--limit", strconv.Itoa(int(j.Share.Limit*Whole + 0.5)),
			"--processors", strconv.Itoa(d.Units)}, 10}}}
	}
	e := edits{
		Env: []string{
			"WEIR_SOCKET=" + agent.SocketPath(containerDir),
			"WEIR_JOB=" + j.Token,
			"WEIR_AGENT_UID=" + strconv.Itoa(n.UID),
			"LD_PRELOAD=" + containerShim,
		},
		Mounts: []mount{bind(agent.DoorPath(n.Runtime), containerDir, "ro"),
			bind(n.Shim, containerShim, "ro")},
	}
	// Of the GPUs that a container sees it is the one, whichever else the runtime brought in.
	if uuid, _ := d.Attributes["uuid"].(string); uuid != "" {
		e.Env = append(e.Env, "CUDA_VISIBLE_DEVICES="+uuid)
	}
	if d.Fake {
		e.Env = append(e.Env, "LD_LIBRARY_PATH="+containerFake, "WEIR_FAKE_DIR="+containerGPU,
			"WEIR_FAKE_GPUS="+strconv.Itoa(int(d.Ordinal)+1),
			"WEIR_FAKE_MEMORY="+strconv.FormatInt(int64(d.Memory), 10))
		e.Mounts = append(e.Mounts, bind(n.FakeDriver, containerFake, "ro"),
			bind(n.FakeState, containerGPU, "rw"))
	}
	return e
}

func bind(host, container, mode string) mount {
	return mount{host, container, []string{mode, "rbind", "nosuid", "nodev"}}
}
