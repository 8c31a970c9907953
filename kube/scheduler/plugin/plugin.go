package plugin

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	plfeature "k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/utils/clock"

	"github.com/weirgpu/weir/kube/live"
)

// Name is the plug-in's name in the scheduler's configuration. A profile that enables it disables
// DynamicResources, which it has inside.
const Name = "Weir"

// Plugin is the plug-in.
type Plugin struct {
	inner   *dynamicresources.DynamicResources
	handle  fwk.Handle
	args    *Args
	manager *manager
	clock   clock.WithDelayedExecution
	synced  []func() bool
	ready   bool // all of synced

	mu sync.Mutex // guards what is below, and is held while no function of handle is called
	inventory
	book      book
	selectors selectors
	live      *live.Cluster
	pods      map[string]*v1.Pod // by UID: those not bound yet that were seen
	running   map[string]*v1.Pod // by UID: those on nodes
	gangs     map[string]*gang
	doomed    map[types.UID]string       // members that are to lose their place, and why
	changed   uint64                     // counts changes of what nodes and devices are for whom
	refused   map[string]map[string]bool // by pod's UID: nodes that others refused to it
	early     early
	awaits    awaits

	fairness sync.Mutex // a leaf: guards fair alone
	fair     *live.Fair
}

// stepTimeouts are the inner plug-in's, upstream's defaults.
const (
	filterTimeout  = 10 * time.Second
	bindingTimeout = 600 * time.Second
)

// New makes the plug-in, as the framework asks for it.
func New(ctx context.Context, from runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	return newAt(ctx, from, h, clock.RealClock{})
}

// newAt is New with a clock.
func newAt(ctx context.Context, from runtime.Object, h fwk.Handle,
	c clock.WithDelayedExecution) (*Plugin, error) {
	args, policy, err := parse(from)
	if err != nil {
		return nil, err
	}
	p := &Plugin{handle: h, args: args, clock: c, inventory: newInventory(), book: newBook(),
		selectors: newSelectors(), awaits: newAwaits(), pods: map[string]*v1.Pod{},
		running: map[string]*v1.Pod{}, gangs: map[string]*gang{},
		doomed: map[types.UID]string{}, refused: map[string]map[string]bool{}, fair: live.NewFair()}
	p.live, err = live.New(live.Options{Policy: policy, Workload: args.workload()})
	if err != nil {
		return nil, err
	}
	p.manager = &manager{SharedDRAManager: h.SharedDRAManager(), plugin: p}
	inner, err := dynamicresources.New(ctx, &config.DynamicResourcesArgs{
		FilterTimeout:  &metav1.Duration{Duration: filterTimeout},
		BindingTimeout: &metav1.Duration{Duration: bindingTimeout},
	}, handle{h, p.manager},
		plfeature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	if err != nil {
		return nil, err
	}
	p.inner = inner.(*dynamicresources.DynamicResources)
	return p, p.watch()
}

var (
	_ fwk.QueueSortPlugin   = &Plugin{}
	_ fwk.PreEnqueuePlugin  = &Plugin{}
	_ fwk.PreFilterPlugin   = &Plugin{}
	_ fwk.FilterPlugin      = &Plugin{}
	_ fwk.PostFilterPlugin  = &Plugin{}
	_ fwk.ScorePlugin       = &Plugin{}
	_ fwk.ReservePlugin     = &Plugin{}
	_ fwk.PermitPlugin      = &Plugin{}
	_ fwk.PreBindPlugin     = &Plugin{}
	_ fwk.PostBindPlugin    = &Plugin{}
	_ fwk.EnqueueExtensions = &Plugin{}
)

// Name implements fwk.Plugin.
func (p *Plugin) Name() string { return Name }

// state is what is known of a pod in a scheduling cycle.
type state struct {
	*demand
	inner   bool           // the inner plug-in has work
	chosen  map[string]int // nodes and their rank, 0 for the best; nil: any
	single  bool           // there is one, chosen without asking other plug-ins
	refusal string         // why it fits nowhere
}

const stateKey fwk.StateKey = Name

// Clone implements fwk.StateData. A state does not change after PreFilter.
func (s *state) Clone() fwk.StateData { return s }

func stateOf(cs fwk.CycleState) *state {
	d, err := cs.Read(stateKey)
	if err != nil {
		return nil
	}
	s, _ := d.(*state)
	return s
}

// waitForSync waits until informers have told what there is, when the first pod comes.
func (p *Plugin) waitForSync(ctx context.Context) *fwk.Status {
	for i := 0; !p.ready && i < len(p.synced); {
		if p.synced[i]() {
			i++
			p.ready = i == len(p.synced)
			continue
		}
		select {
		case <-ctx.Done():
			return fwk.AsStatus(ctx.Err())
		case <-p.clock.After(10 * time.Millisecond):
		}
	}
	return nil
}

// activate has pods tried at once for whom promises were kept.
func (p *Plugin) activate(keys []string) {
	if len(keys) == 0 {
		return
	}
	pods := map[string]*v1.Pod{}
	p.mu.Lock()
	for _, key := range keys {
		if pod := p.pods[uidOf(key)]; pod != nil {
			pods[pod.Namespace+"/"+pod.Name] = pod
		}
	}
	p.mu.Unlock()
	p.tryAgain(pods)
}

// tryAgain moves pods to the queue of those that are tried next. Some callers are called by that
// queue, with its lock. Where no scheduler runs, as for a what-if, nobody waits.
func (p *Plugin) tryAgain(pods map[string]*v1.Pod) {
	if len(pods) > 0 && p.handle != nil {
		go p.handle.Activate(p.log(), pods)
	}
}
