package cluster

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Version is that of Kubernetes that kube/e2e/build builds.
const Version = "v1.36.3"

// ErrNotBuilt: the binaries are not there.
var ErrNotBuilt = errors.New("not built: run kube/e2e/build, which takes minutes once")

// Options say what cluster to start.
type Options struct {
	// Bin is the folder that kube/e2e/build prints; empty: where it puts it by itself.
	Bin string
	// Dir is an empty folder, with a path of at most 40 bytes, as sockets lie below it.
	Dir string
	// Loopback has the API server listen on 127.0.0.1, where no containers reach it, and needs no
	// rights. Without it the server has an address of its own on the machine's loopback device.
	Loopback bool
	// Scheduler is run in place of Kubernetes' own, with the same flags; empty: the own one;
	// "none": there is none.
	Scheduler string
	// Profile is what the scheduler's configuration has beyond how it finds the server: YAML.
	Profile string
	// Verbose is told what is started; nil: nobody is.
	Verbose io.Writer
}

// Cluster is one that runs.
type Cluster struct {
	// Kubeconfig is a file by which kubectl and clients come in as its administrator.
	Kubeconfig string
	// Client is the administrator's.
	Client *Client

	dir, bin  string
	talk      io.Writer
	net       network
	admin     string // the administrator's token
	processes []*process
	undo      []func()
}

// Where finds the folder of the binaries: dir, or else $WEIR_K8S, or else the user's cache.
func Where(dir string) (string, error) {
	if dir != "" {
		return dir, nil
	}
	if dir = os.Getenv("WEIR_K8S"); dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(cache, "weir", "k8s")
	}
	return filepath.Join(dir, Version), nil
}

// Start starts a control plane. When the context is done, or it fails, all that was started ends;
// otherwise Close ends it.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	bin, err := Where(o.Bin)
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: o.Dir, bin: bin, talk: o.Verbose, admin: token()}
	if c.talk == nil {
		c.talk = io.Discard
	}
	if len(o.Dir) > 40 {
		return nil, fmt.Errorf("cluster: %s: is longer than 40 bytes, and sockets lie below it",
			o.Dir)
	}
	err = c.has("etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubectl",
		"helm")
	if err != nil {
		return nil, err
	}
	if err := c.control(ctx, &o); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close ends all processes, the last one first, and undoes what was done to the machine.
func (c *Cluster) Close() error {
	for _, f := range slices.Backward(c.undo) {
		f()
	}
	for _, p := range slices.Backward(c.processes) {
		p.kill()
	}
	c.undo, c.processes = nil, nil
	return c.net.close()
}

// has reports the first of these binaries that is not there.
func (c *Cluster) has(names ...string) error {
	for _, name := range names {
		if _, err := os.Stat(c.binary(name)); err != nil {
			return fmt.Errorf("%s: %w", c.binary(name), ErrNotBuilt)
		}
	}
	return nil
}

func (c *Cluster) binary(name string) string { return filepath.Join(c.bin, "bin", name) }

// Kubectl runs kubectl as the administrator, with so much on its standard input, and returns what
// it prints; the error has what it says.
func (c *Cluster) Kubectl(ctx context.Context, input string, args ...string) (string, error) {
	return c.run(ctx, input, "kubectl", append([]string{"--kubeconfig", c.Kubeconfig}, args...)...)
}

// Helm runs helm as the administrator, with so much on its standard input, and returns what it
// prints; the error has what it says.
func (c *Cluster) Helm(ctx context.Context, input string, args ...string) (string, error) {
	return c.run(ctx, input, "helm", append([]string{"--kubeconfig", c.Kubeconfig}, args...)...)
}

func (c *Cluster) run(ctx context.Context, input, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.binary(name), args...)
	said := new(tail)
	cmd.Stderr = said
	if input != "" {
		cmd.Stdin = strings.NewReader(input)
	}
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w: %s", name, args[len(args)-1], err, said)
	}
	return string(out), nil
}

// Until calls is until it is true, and is an error when the process has ended by itself, when the
// context is done, or after so long: what names what was waited for.
func (c *Cluster) Until(ctx context.Context, what string, most time.Duration,
	is func() (bool, error)) error {
	end := time.Now().Add(most)
	for {
		ok, err := is()
		switch {
		case ok && err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(end):
			return errors.Join(fmt.Errorf("not within %v: %s", most, what), err)
		}
		for _, p := range c.processes {
			if err := c.failed(p); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// token is a secret by which somebody comes in.
func token() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // does not fail (crypto/rand, Read)
	return hex.EncodeToString(b[:])
}

// signingKey is a new key for tokens of service accounts, in PEM.
func signingKey() (string, error) {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY",
		Bytes: x509.MarshalPKCS1PrivateKey(k)})), nil
}

// freePort is a TCP port that nobody listens on at an address now.
func freePort(address string) (string, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return "", err
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}
