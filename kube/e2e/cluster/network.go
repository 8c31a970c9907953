package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
)

// network is where the API server is, and where pods are.
//
// No kube-proxy runs, so nothing leads from a service's address to the server's: the server has the
// address of the service kubernetes itself, on the machine's loopback device and at the service's
// port, and pods come to it by their way to the node.
type network struct {
	address  string // of the API server
	port     string
	services string // their addresses
	pods     string // theirs
	bridge   string // device of the node's pods
	added    bool
}

// loopback is a network for clusters without pods that run.
func loopback() (network, error) {
	port, err := freePort("127.0.0.1")
	return network{address: "127.0.0.1", port: port, services: "10.96.0.0/16"}, err
}

// openNetwork takes the first pair of small networks that nobody has on this machine.
func openNetwork(ctx context.Context) (n network, err error) {
	taken, err := net.InterfaceAddrs()
	if err != nil {
		return n, err
	}
	for i := 16; i < 200; i++ {
		prefix := fmt.Sprintf("10.231.%d.", i)
		if in(taken, prefix) {
			continue
		}
		n = network{address: prefix + "1", port: "443", services: prefix + "0/25",
			pods: prefix + "128/25", bridge: fmt.Sprintf("weir%d", i)}
		// Who comes second to the same one is told so by the kernel, and takes the next.
		out, err := exec.CommandContext(ctx, "ip", "address", "add", n.address+"/32", "dev",
			"lo").CombinedOutput()
		if err == nil {
			n.added = true
			return n, nil
		}
		if !strings.Contains(string(out), "already") && !strings.Contains(string(out), "exists") {
			return n, fmt.Errorf("%w: ip address add: %w: %s", ErrNoNode, err, out)
		}
	}
	return n, errors.New("cluster: all networks of 10.231.0.0/16 are taken")
}

func in(addresses []net.Addr, prefix string) bool {
	for _, a := range addresses {
		if strings.HasPrefix(a.String(), prefix) {
			return true
		}
	}
	return false
}

// close gives the address back, and the bridge that the runtime made.
func (n *network) close() error {
	if !n.added {
		return nil
	}
	n.added = false
	_ = exec.Command("ip", "link", "delete", n.bridge).Run() // there if a pod was
	out, err := exec.Command("ip", "address", "del", n.address+"/32", "dev",
		"lo").CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip address del: %w: %s", err, out)
	}
	return nil
}

// url is where the API server listens.
func (n *network) url() string { return "https://" + net.JoinHostPort(n.address, n.port) }
