package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ready is how long a part of the control plane may take to answer. It takes about three seconds on
// a machine with nothing else to do.
const ready = 5 * time.Minute

// user is somebody who comes in by a token.
type user struct{ name, groups string }

// Users of the components, to which Kubernetes' own roles are bound.
var (
	administrator = user{"admin", "system:masters"}
	schedulerUser = user{"system:kube-scheduler", ""}
	managerUser   = user{"system:kube-controller-manager", ""}
)

// control starts the control plane.
func (c *Cluster) control(ctx context.Context, o *Options) (err error) {
	if c.net, err = loopback(); !o.Loopback && err == nil {
		c.net, err = openNetwork(ctx)
	}
	if err != nil {
		return err
	}
	if err := c.server(ctx); err != nil {
		return err
	}
	if err := c.scheduler(o); err != nil {
		return err
	}
	return c.manager(ctx)
}

// server starts etcd and the API server, and waits for it.
func (c *Cluster) server(ctx context.Context) error {
	etcd, err := c.etcd()
	if err != nil {
		return err
	}
	key, err := signingKey()
	if err != nil {
		return err
	}
	keys, err := c.write("sa.key", key)
	if err != nil {
		return err
	}
	tokens, err := c.tokens()
	if err != nil {
		return err
	}
	p, err := c.begin("kube-apiserver", "--etcd-servers="+etcd,
		"--bind-address="+c.net.address, "--advertise-address="+c.advertised(),
		"--secure-port="+c.net.port, "--service-cluster-ip-range="+c.net.services,
		"--cert-dir="+filepath.Join(c.dir, "certs"), "--token-auth-file="+tokens,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+keys, "--service-account-signing-key-file="+keys,
		"--max-requests-inflight=3000", "--max-mutating-requests-inflight=1000",
		"--allow-privileged=true")
	if err != nil {
		return err
	}
	if c.Kubeconfig, err = c.kubeconfig("admin", c.admin); err != nil {
		return err
	}
	c.Client = newClient(c.net.url(), c.admin)
	return c.Until(ctx, "an API server that is ready", ready, func() (bool, error) {
		text, err := c.Client.Text(ctx, "/readyz")
		return strings.HasPrefix(text, "ok"), firstError(c.failed(p), err)
	})
}

// advertised is an address that the service kubernetes may have; a loopback one may not.
func (c *Cluster) advertised() string {
	if c.net.bridge == "" {
		return "10.96.0.1"
	}
	return c.net.address
}

func (c *Cluster) etcd() (url string, err error) {
	client, err := freePort("127.0.0.1")
	if err != nil {
		return "", err
	}
	peer, err := freePort("127.0.0.1")
	if err != nil {
		return "", err
	}
	url = "http://127.0.0.1:" + client
	_, err = c.begin("etcd", "--data-dir", filepath.Join(c.dir, "etcd"),
		"--listen-client-urls", url, "--advertise-client-urls", url,
		"--listen-peer-urls", "http://127.0.0.1:"+peer,
		"--initial-advertise-peer-urls", "http://127.0.0.1:"+peer,
		"--initial-cluster", "default=http://127.0.0.1:"+peer,
		"--unsafe-no-fsync", "--log-level", "warn")
	return url, err
}

// tokens writes who comes in by which token.
func (c *Cluster) tokens() (string, error) {
	var b strings.Builder
	for i, u := range []user{administrator, schedulerUser, managerUser, nodeUser} {
		fmt.Fprintf(&b, "%s,%s,%d,%q\n", c.tokenOf(u), u.name, i, u.groups)
	}
	return c.write("tokens.csv", b.String())
}

// tokenOf is the administrator's token, or made of it: all of them lie in one file.
func (c *Cluster) tokenOf(u user) string {
	if u == administrator {
		return c.admin
	}
	return c.admin + "-" + strings.ReplaceAll(u.name, ":", "-")
}

// kubeconfig writes how a client comes in.
func (c *Cluster) kubeconfig(name, token string) (string, error) {
	return c.write(name+".kubeconfig", fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: %s}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, c.net.url(), token))
}

// scheduler starts the scheduler, or what takes its place.
func (c *Cluster) scheduler(o *Options) error {
	if o.Scheduler == "none" {
		return nil
	}
	in, err := c.kubeconfig("scheduler", c.tokenOf(schedulerUser))
	if err != nil {
		return err
	}
	config, err := c.write("scheduler.yaml", fmt.Sprintf(
		`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: 5000, burst: 10000}
leaderElection: {leaderElect: false}
`, in)+o.Profile)
	if err != nil {
		return err
	}
	port, err := freePort("127.0.0.1")
	if err != nil {
		return err
	}
	path := c.binary("kube-scheduler")
	if o.Scheduler != "" {
		path = o.Scheduler
	}
	_, err = c.beginPath("kube-scheduler", path, "--config="+config,
		"--bind-address=127.0.0.1", "--secure-port="+port,
		"--authorization-kubeconfig="+in, "--authentication-kubeconfig="+in,
		"--authentication-tolerate-lookup-failure=true")
	return err
}

// manager starts the controller manager, and waits until pods can be made: without the service
// account of their namespace they are refused.
func (c *Cluster) manager(ctx context.Context) error {
	in, err := c.kubeconfig("manager", c.tokenOf(managerUser))
	if err != nil {
		return err
	}
	port, err := freePort("127.0.0.1")
	if err != nil {
		return err
	}
	// The server's own certificate has that of its maker behind it.
	authority := filepath.Join(c.dir, "certs", "apiserver.crt")
	if _, err := os.Stat(authority); err != nil {
		return err
	}
	_, err = c.begin("kube-controller-manager", "--kubeconfig="+in,
		"--leader-elect=false", "--bind-address=127.0.0.1", "--secure-port="+port,
		"--authorization-kubeconfig="+in, "--authentication-kubeconfig="+in,
		"--root-ca-file="+authority,
		"--service-account-private-key-file="+filepath.Join(c.dir, "sa.key"),
		"--use-service-account-credentials=true",
		"--kube-api-qps=2000", "--kube-api-burst=4000",
		"--controllers=*,-nodeipam,-service-lb-controller,-cloud-node-lifecycle-controller")
	if err != nil {
		return err
	}
	return c.Until(ctx, "a service account of namespace default", ready, func() (bool, error) {
		return c.Client.Has(ctx, "/api/v1/namespaces/default/serviceaccounts/default")
	})
}

func firstError(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}
