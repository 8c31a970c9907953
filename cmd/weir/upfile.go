package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	lib "github.com/weirgpu/weir"
	"github.com/weirgpu/weir/internal/sorting"
	"github.com/weirgpu/weir/server/config"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/source"
	"github.com/weirgpu/weir/share/policy"
)

// fileKey is a key of the file of weir up --config.
type fileKey struct {
	key, flag string
	path      bool // a relative one is below the file's folder
}

// fileKeys are all of them, in the order in which they are told.
var fileKeys = []fileKey{
	{key: "listen.http", flag: "http"},
	{key: "listen.grpc", flag: "grpc"},
	{key: "listen.metrics", flag: "metrics"},
	{key: "listen.id", flag: "id"},
	{key: "listen.shared_memory", flag: "shared-memory"},
	{key: "tls.cert", flag: "tls-cert", path: true},
	{key: "tls.key", flag: "tls-key", path: true},
	{key: "tls.client_ca", flag: "tls-client-ca", path: true},
	{key: "auth.accounts", flag: "accounts"},
	{key: "auth.state", flag: "state", path: true},
	{key: "auth.checkpoints", flag: "audit-checkpoints", path: true},
	{key: "auth.oidc.issuer", flag: "oidc-issuer"},
	{key: "auth.oidc.audience", flag: "oidc-audience"},
	{key: "repository.folder", flag: "models", path: true}, // or addresses
	{key: "repository.control", flag: "control"},
	{key: "repository.load", flag: "load"},
	{key: "repository.poll", flag: "poll"},
	{key: "repository.keys", flag: "model-keys", path: true},
	{key: "repository.keys_command", flag: "model-keys-command"},
	{key: "device.threads", flag: "threads"},
	{key: "device.memory", flag: "memory"},
	{key: "device.no_cache", flag: "no-cache"},
	{key: "device.fake_gpu", flag: "fake-gpu"},
	{key: "device.no_agent", flag: "no-agent"},
	{key: "policy", flag: "policy"},
	{key: "limits.grace", flag: "grace"},
	{key: "limits.response_cache", flag: "response-cache"},
	{key: "train", flag: "train", path: true},
	{key: "traces.collector", flag: "otlp"},
	{key: "traces.rate", flag: "trace-rate"},
}

// upFile is the file that a server is configured by, if there is one.
type upFile struct {
	path  string
	given map[string]bool // flags of the command line, which the file does not change
	// memory is what models have in turn, 0 where each has its own
	memory lib.Bytes
	mu     sync.Mutex
	file   *config.File // of its last reading that was taken over
}

func (f *upFile) add(c *cobra.Command) {
	c.Flags().StringVar(&f.path, "config", "", "a `FILE` in YAML that sets other flags, and "+
		"shares of models; flags that are given go before it; SIGHUP has it read again")
}

// parse reads the file.
func (f *upFile) parse() (*config.File, error) {
	r, err := os.Open(f.path)
	if err != nil {
		return nil, failed(fmt.Errorf("--config: %w", err))
	}
	defer r.Close()
	var keys []string
	for _, k := range fileKeys {
		keys = append(keys, k.key)
	}
	file, err := config.Parse(r, keys)
	if err != nil {
		return nil, fmt.Errorf("--config %s: %w", f.path, err)
	}
	return file, nil
}

// set reads the file, if one is named, and sets the flags that are not given.
func (f *upFile) set(c *cobra.Command) error {
	f.file = &config.File{}
	if f.path == "" {
		return nil
	}
	file, err := f.parse()
	if err != nil {
		return err
	}
	f.file, f.given = file, map[string]bool{}
	for _, s := range file.Settings {
		k := fileKeys[slices.IndexFunc(fileKeys, func(k fileKey) bool { return k.key == s.Key })]
		if f.given[k.flag] = c.Flags().Changed(k.flag); f.given[k.flag] {
			continue
		}
		value := s.Value
		if k.path && value != "" && !filepath.IsAbs(value) && !source.Remotes(value) {
			value = filepath.Join(filepath.Dir(f.path), value)
		}
		if err := c.Flags().Set(k.flag, value); err != nil {
			return fmt.Errorf("--config %s: %w: line %d: %s: %w", f.path, config.ErrConfig, s.Line,
				s.Key, err)
		}
	}
	return nil
}

// keeps refuses models that are to keep memory where none is given up, in the file and in those
// that come after it.
func (f *upFile) keeps(memory lib.Bytes) error {
	f.memory = memory
	return f.kept(f.file)
}

// kept is keeps for another file.
func (f *upFile) kept(file *config.File) error {
	for _, m := range file.Models {
		if m.Share.Keep > 0 && f.memory == 0 {
			return fmt.Errorf("--config %s: model %s: keep: without device.memory every model "+
				"keeps all of its memory: leave it out, or give device.memory", f.path, m.Name)
		}
	}
	return nil
}

// share is what the file says of a model's share; it may be called while the file is read again.
func (f *upFile) share(model string) lib.Share {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file.Model(model).Share
}

// errRestart is about settings that a server has for its life.
var errRestart = errors.New("only the policy and the shares of models change while it runs: " +
	"restart it for the rest")

// watch has each SIGHUP read the file again, until the function returned is called. Without a file
// the signal ends the process, as it does by itself.
func (f *upFile) watch(s configured, log *slog.Logger) func() {
	if f.path == "" {
		return func() {}
	}
	return onHangup(func() { tellReload(log, func() { f.reload(s, log) }) })
}

// reload reads the file again, and has the server follow it whole or not at all: where something is
// wrong all is as it was before, and the log has the reason.
func (f *upFile) reload(s configured, log *slog.Logger) {
	if err := f.follow(s); err != nil {
		log.Error("the configuration is not taken over: all is as before", "error", err)
		return
	}
	log.Info("the configuration is taken over", "file", f.path)
}

// follow is reload with its reason.
func (f *upFile) follow(s configured) error {
	next, err := f.parse()
	if err != nil {
		return err
	}
	fixed := slices.DeleteFunc(f.file.Changes(next), func(k string) bool { return k == "policy" })
	if len(fixed) > 0 {
		return fmt.Errorf("--config %s: %s changed: %w", f.path, strings.Join(fixed, ", "),
			errRestart)
	}
	if err := f.kept(next); err != nil {
		return err
	}
	list := f.changes(next)
	// models that come to be known meanwhile find their shares in it
	before := f.replace(next)
	if err := list.apply(s); err != nil {
		f.replace(before)
		return fmt.Errorf("--config %s: %w", f.path, err)
	}
	return nil
}

// replace makes another file the one that is followed, and returns the one before.
func (f *upFile) replace(next *config.File) (before *config.File) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, f.file = f.file, next
	return before
}

// configured is what a file changes while it runs; *server.Server is, and shared.
type configured interface {
	Status() lib.HostStatus
	SetPolicy(name string) error
	SetShare(model string, to lib.Share) (before lib.Share, err error)
	Expect(model string, to lib.Share) (before lib.Share, known bool)
}

// change is one step towards a file: it is made, and returns how it is undone.
type change func(s configured) (undo func() error, err error)

// changes are the steps towards another file; shares that grow come after those that shrink, which
// make room.
func (f *upFile) changes(next *config.File) changes {
	var list changes
	if slices.Contains(f.file.Changes(next), "policy") && !f.given["policy"] {
		list = append(list, policyChange(next))
	}
	type step struct {
		model string
		to    lib.Share
		more  float64
	}
	var steps []step
	for _, m := range slices.Concat(f.file.Models, next.Models) {
		before, after := f.file.Model(m.Name).Share, next.Model(m.Name).Share
		if before != after && !slices.ContainsFunc(steps, func(x step) bool {
			return x.model == m.Name
		}) {
			more := after.Guarantee() - before.Guarantee()
			if more == 0 {
				more = float64(after.Memory - before.Memory)
			}
			steps = append(steps, step{m.Name, after, more})
		}
	}
	sorting.By(steps, func(a, b step) int { return cmp.Compare(a.more, b.more) })
	for _, x := range steps {
		list = append(list, shareChange(x.model, x.to))
	}
	return list
}

func policyChange(next *config.File) change {
	return func(s configured) (func() error, error) {
		before := s.Status().Policy
		return func() error { return s.SetPolicy(before) }, s.SetPolicy(policyOf(next))
	}
}

// policyOf is the policy that a file names, or the usual one.
func policyOf(f *config.File) string {
	for _, s := range f.Settings {
		if s.Key == "policy" {
			return s.Value
		}
	}
	return policy.Default
}

// shareChange gives a model its share: of one that is not served, its next version has it.
func shareChange(model string, to lib.Share) change {
	return func(s configured) (func() error, error) {
		before, err := s.SetShare(model, to)
		if kind := oip.KindOf(err); kind == oip.NotFound || kind == oip.Unavailable {
			before, known := s.Expect(model, to)
			return func() error {
				if known {
					s.Expect(model, before)
				}
				return nil
			}, nil
		}
		return func() error { _, err := s.SetShare(model, before); return err }, err
	}
}

// changes are steps that are made together or not at all.
type changes []change

// apply makes all steps, or none: then the error says why, and undo has been done as far as it
// could.
func (list changes) apply(s configured) error {
	var done []func() error
	for _, c := range list {
		undo, err := c(s)
		if err != nil {
			for _, u := range slices.Backward(done) {
				err = errors.Join(err, u())
			}
			return err
		}
		done = append(done, undo)
	}
	return nil
}
