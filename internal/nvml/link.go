//go:build linux && (amd64 || arm64) && !nogpu

package nvml

import "github.com/weirgpu/weir/device"

// mostLinks is NVML_NVLINK_MAX_LINKS.
const mostLinks = 36

// Values of nvml.h's enumerations.
const (
	linkToSwitch = 2 // NVML_NVLINK_DEVICE_TYPE_SWITCH
	p2pRead      = 0 // NVML_P2P_CAPS_INDEX_READ
	p2pNVLink    = 2 // NVML_P2P_CAPS_INDEX_NVLINK
	p2pOK        = 0 // NVML_P2P_STATUS_OK
)

// levels translates nvmlGpuTopologyLevel_t.
var levels = map[uint32]device.Path{
	0: device.PathBoard, 10: device.PathSwitch, 20: device.PathSwitches,
	30: device.PathBridge, 40: device.PathNode, 50: device.PathSystem,
}

// connect fills the links between all pairs.
func (l *Library) connect(gpus []gpu) {
	if len(gpus) < 2 {
		return
	}
	here := map[string]bool{}
	for i := range gpus {
		here[gpus[i].info.PCI] = true
	}
	for i := range gpus {
		l.nvlinks(&gpus[i], here)
	}
	for i := range gpus {
		for j := range gpus {
			if i != j {
				gpus[i].info.Links = append(gpus[i].info.Links, l.link(&gpus[i], &gpus[j]))
			}
		}
	}
}

// nvlinks counts the active connections of a GPU by what is at their other end.
func (l *Library) nvlinks(g *gpu, here map[string]bool) {
	g.direct = map[string]int{}
	for link := range uint32(mostLinks) {
		var active uint32
		switch r := l.call.linkState(g.handle, link, &active); {
		case r == InvalidArgument, r == FunctionNotFound: // the links are numbered without gaps
			return
		case r != Success, active == 0:
			continue
		}
		var remote pciInfo
		known := l.call.linkRemote(g.handle, link, &remote) == Success
		bus := busName(remote.Domain, remote.Bus, remote.Dev)
		switch {
		case known && here[bus]:
			g.direct[bus]++
		case l.intoSwitch(g.handle, link, known):
			g.hub++
		}
	}
}

// intoSwitch says whether a connection that ends at no GPU of this machine ends at a switch.
// Drivers before branch 450 do not tell what is there, only where it is.
func (l *Library) intoSwitch(d deviceHandle, link uint32, known bool) bool {
	var kind uint32
	if r := l.call.linkRemoteType(d, link, &kind); r != FunctionNotFound {
		return r == Success && kind == linkToSwitch
	}
	return known
}

func (l *Library) link(from, to *gpu) device.Link {
	link := device.Link{To: to.info.ID, Path: device.PathUnknown}
	var level, status uint32
	if l.call.ancestor(from.handle, to.handle, &level) == Success {
		if path, ok := levels[level]; ok {
			link.Path = path
		}
	}
	link.Peer = l.call.p2p(from.handle, to.handle, p2pRead, &status) == Success && status == p2pOK
	link.NVLinks = from.direct[to.info.PCI]
	// A switch may be cut into partitions: two GPUs that have links into one need not reach each
	// other.
	reaches := l.call.p2p(from.handle, to.handle, p2pNVLink, &status) == Success && status == p2pOK
	if reaches {
		link.NVLinks += min(from.hub, to.hub)
	}
	if link.NVLinks > 0 {
		link.Path = device.PathNVLink
	}
	return link
}
