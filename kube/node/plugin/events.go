package plugin

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirgpu/weir/kube/dra"
)

// Reasons of events of a node.
const (
	// AgentGone: the agent has not answered twice in a row.
	AgentGone = "WeirAgentGone"
	// AgentBack: it answers again.
	AgentBack = "WeirAgentBack"
)

// missedToTell is how many times in a row the agent has not answered when the node's events say so:
// one that is started again is back before.
const missedToTell = 2

// follow tells of the agent by events of the node; err is why it does not answer now.
func (p *plugin) follow(ctx context.Context, err error) {
	switch {
	case err == nil && p.missed >= missedToTell:
		p.tell(ctx, v1.EventTypeNormal, AgentBack,
			"weir's agent on this node answers again: its devices take pods")
		fallthrough
	case err == nil:
		p.missed = 0
		return
	}
	if p.missed++; p.missed == missedToTell {
		p.tell(ctx, v1.EventTypeWarning, AgentGone, fmt.Sprintf("weir's agent on this node does "+
			"not answer (%v): what runs on its devices goes on, and they take no new pods until "+
			"it does; see container agent of this node's pod of DaemonSet weir-node", err))
	}
}

// tell leaves an event of the node, as the kubelet does. Without one nothing else is worse.
func (p *plugin) tell(ctx context.Context, kind, reason, text string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	now := metav1.Now()
	_, err := p.Client.CoreV1().Events(metav1.NamespaceDefault).Create(ctx, &v1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name:      fmt.Sprintf("%s.%s.%x", p.NodeName, "weir", now.UnixNano()),
			Namespace: metav1.NamespaceDefault},
		InvolvedObject: v1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: p.NodeName,
			UID: types.UID(p.NodeName)},
		Type: kind, Reason: reason, Message: text, Count: 1,
		FirstTimestamp: now, LastTimestamp: now,
		Source: v1.EventSource{Component: dra.DriverName, Host: p.NodeName},
	}, metav1.CreateOptions{})
	if err != nil {
		p.Log.Warn("event of the node", "reason", reason, "error", err)
	}
}
