package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/kube/dra"
)

// Options are what a driver needs to run.
type Options struct {
	// NodeName is the Kubernetes node, and the name of its pool of devices.
	NodeName string
	// Client speaks to the API server.
	Client kubernetes.Interface
	// Dir is the driver's folder among the kubelet's plug-ins, for its socket and its book,
	// Registry that in which the kubelet looks for plug-ins, CDI that of CDI specifications. All
	// are there.
	Dir, Registry, CDI string
	// Agent is the node's agent, and Node where containers find things.
	Agent dra.Local
	Node  dra.Node
	// GPUs tells more of the node's GPUs; nil: nothing is told. CPU is the part of the node's CPU
	// that is offered; none without memory.
	GPUs func() []device.Info
	CPU  device.Info
	// Every is how often agent and devices are looked at.
	Every time.Duration
	Log   *slog.Logger
}

// Run serves the kubelet until the context is done or something fails that is not mended by going
// on.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d, err := dra.New(dra.Config{Dir: o.Dir, CDI: o.CDI, Node: o.Node, Agent: o.Agent, Log: o.Log})
	if err != nil {
		return err
	}
	p := &plugin{Options: o, driver: d, fail: cancel}
	p.look(ctx)
	helper, err := kubeletplugin.Start(ctx, p,
		kubeletplugin.DriverName(dra.DriverName),
		kubeletplugin.NodeName(o.NodeName),
		kubeletplugin.KubeClient(o.Client),
		kubeletplugin.PluginDataDirectoryPath(o.Dir),
		kubeletplugin.RegistrarDirectoryPath(o.Registry),
		kubeletplugin.CDIDirectory(o.CDI))
	if err != nil {
		return fmt.Errorf("driver: %w", err)
	}
	defer helper.Stop()
	t := time.NewTicker(o.Every)
	defer t.Stop()
	for {
		if err := p.publish(ctx, helper); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		case <-t.C:
			p.look(ctx)
		}
	}
}

// plugin is the driver as the helper calls it.
type plugin struct {
	Options
	driver *dra.Driver
	fail   context.CancelCauseFunc
	// Of the goroutine of Run.
	devices, published []dra.Device
	gone               bool // the agent did not answer when it was last asked
	missed             int  // times in a row that it has not
	seen               bool // it has answered
}

// look asks the agent what there is, and gives it again what it should keep if it is another one.
func (p *plugin) look(ctx context.Context) {
	var s agent.Snapshot
	asked, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s, err := p.Agent.Snapshot(asked)
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("no answer in 5s: it may be stopped or hang")
	}
	if gone := err != nil; gone != p.gone {
		p.gone = gone
		p.Log.Warn("agent", "answers", !gone, "error", err)
	}
	p.follow(ctx, err)
	p.seen = p.seen || err == nil
	var infos []device.Info
	if p.GPUs != nil && err == nil {
		infos = p.GPUs()
	}
	p.devices = dra.Follow(p.devices, dra.Inventory(s, infos, p.CPU), err)
	p.driver.SetDevices(p.devices)
	if err == nil && p.driver.Lacks(dra.KeptIn(&s)) || p.published == nil {
		if err := p.driver.Recover(ctx); err != nil {
			p.Log.Warn("not all claims are as they were: it is tried again", "error", err)
		}
	}
}

// publish tells the cluster of the devices, if there is anything new. Until the agent has answered
// what a driver before this one told stays: devices that claims were given parts of are there.
func (p *plugin) publish(ctx context.Context, h *kubeletplugin.Helper) error {
	if !p.seen || p.published != nil && reflect.DeepEqual(p.devices, p.published) {
		return nil
	}
	err := h.PublishResources(ctx, resourceslice.DriverResources{
		Pools: map[string]resourceslice.Pool{p.NodeName: poolOf(p.devices)}})
	if err != nil {
		return fmt.Errorf("driver: publish: %w", err)
	}
	p.published = append([]dra.Device{}, p.devices...)
	return nil
}

// PrepareResourceClaims implements kubeletplugin.DRAPlugin.
func (p *plugin) PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (
	map[types.UID]kubeletplugin.PrepareResult, error) {
	all := map[types.UID]kubeletplugin.PrepareResult{}
	for _, c := range claims {
		var r kubeletplugin.PrepareResult
		r.Devices, r.Err = p.prepare(ctx, c)
		all[c.UID] = r
	}
	return all, nil
}

func (p *plugin) prepare(ctx context.Context, c *resourceapi.ResourceClaim) (
	[]kubeletplugin.Device, error) {
	claim, err := claimOf(c)
	if err != nil {
		return nil, err
	}
	prepared, err := p.driver.Prepare(ctx, claim)
	var all []kubeletplugin.Device
	for _, v := range prepared {
		d := kubeletplugin.Device{Requests: []string{v.Request}, PoolName: v.Pool,
			DeviceName: v.Device, CDIDeviceIDs: v.CDI}
		if v.ShareID != "" {
			id := types.UID(v.ShareID)
			d.ShareID = &id
		}
		all = append(all, d)
	}
	return all, err
}

// UnprepareResourceClaims implements kubeletplugin.DRAPlugin.
func (p *plugin) UnprepareResourceClaims(ctx context.Context,
	claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	all := map[types.UID]error{}
	for _, c := range claims {
		all[c.UID] = p.driver.Unprepare(ctx, string(c.UID))
	}
	return all, nil
}

// HandleError implements kubeletplugin.DRAPlugin.
func (p *plugin) HandleError(_ context.Context, err error, msg string) {
	p.Log.Error(msg, "error", err)
	if !errors.Is(err, kubeletplugin.ErrRecoverable) {
		p.fail(fmt.Errorf("%s: %w", msg, err))
	}
}
