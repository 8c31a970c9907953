package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/internal/terminal"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/repo"
	"github.com/weirgpu/weir/server/sealed"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/policy"
)

// upFlags are those of up.
type upFlags struct {
	models   placeFlags
	kept     string // the folder of models; "" for none
	address  string
	policy   string
	threads  int
	memory   share.Bytes // that models have in turn; 0: all of the device's, and each keeps its own
	grace    time.Duration
	asJSON   bool
	noCache  bool
	metrics  metricsFlags
	grpc     grpcFlags
	traces   traceFlags
	clients  clientFlags
	people   peopleFlags
	sealed   sealedFlags
	control  controlFlags
	file     upFile
	programs programFlags
	recipes  []string // to train by
}

// sealedFlags say where the keys of models come from that are encrypted at rest.
type sealedFlags struct {
	file    string
	command string
}

func (f *sealedFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.file, "model-keys", "", "the `FILE` of keys, as age-keygen makes it, "+
		"of models that are stored as "+repo.File+sealed.Extension)
	c.Flags().StringVar(&f.command, "model-keys-command", "", "a `COMMAND` that prints such keys "+
		"in place of that file, run for each model")
}

// keys are nil where none are named.
func (f *sealedFlags) keys() (sealed.Keys, error) {
	words := strings.Fields(f.command)
	switch {
	case f.file != "" && len(words) > 0:
		return nil, errors.New("--model-keys and --model-keys-command: give one")
	case f.file != "":
		return sealed.KeyFile(f.file), nil
	case len(words) > 0:
		return sealed.KeyCommand(words[0], words[1:]...), nil
	}
	return nil, nil
}

func newUp() *cobra.Command {
	var f upFlags
	c := &cobra.Command{
		Use:   "up",
		Short: "Serve models over HTTP and gRPC, under shares of one device",
		Long: "Serve the models of a folder over the Open Inference Protocol, version 2, with " +
			"Triton's binary data and classification. The folder holds " +
			"NAME/VERSION/model.onnx and, where a model has a configuration, " +
			"NAME/config.pbtxt; without one, the newest version of each model is served. " +
			"Models are loaded and unloaded on request (weir model), unless --control says " +
			"otherwise. Each version is a job under a policy: it is promised the memory that it " +
			"needs or, where the shapes of its inputs are open, what its requests turn out to " +
			"need.\n\n" +
			"Without --models and without a folder models, a classifier of handwritten digits is " +
			"served.\n\nOn a loopback address anybody on this machine may read and infer, and " +
			"only the server's user and root may do more. Any other demands TLS (--tls-cert, " +
			"--tls-key) and accounts, each with rights; the first token, of the account " +
			"admin, is made at the first start, in the file that is named. Batch jobs (weir " +
			"job) need a folder for the state, which --state names. Nothing is written without " +
			"accounts and without that, but for the folder of the agent's socket, unless weir " +
			"agent runs or --no-agent is given: this is the agent of the programs under weir " +
			"exec, too. They stand beside the models on the page, in " +
			"weir top and in the metrics, under the same policy; weir top, weir set and weir " +
			"policy find the models also where there is no GPU.\n\n" +
			"SIGTERM ends readiness, for --grace; then, as after Ctrl-C at once, " +
			"no more requests are taken, and those under way are answered, for 30 s at most.",
		Example: "  weir up\n  weir up --models ./models --policy priority\n" +
			"  weir up --models s3://bucket/models",
		Args: exactly(0),
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	f.define(c)
	return c
}

// define adds the flags.
func (f *upFlags) define(c *cobra.Command) {
	f.models.add(c)
	c.Flags().StringVar(&f.address, "http", "localhost:8000", "the `ADDRESS` to answer on; port 0 "+
		"picks one")
	c.Flags().StringVar(&f.policy, "policy", policy.Default, "the sharing policy (weir policies "+
		"lists them)")
	c.Flags().IntVar(&f.threads, "threads", 0, "cores to share (default: the cores this process "+
		"may use)")
	c.Flags().Var((*byteSize)(&f.memory), "memory", "the `BYTES`, such as 2GiB, that models hold "+
		"together: those that are idle give theirs up where others need it (default: all of the "+
		"device's, of which each model keeps its part)")
	c.Flags().DurationVar(&f.grace, "grace", 5*time.Second, "how long requests are taken after "+
		"SIGTERM has ended readiness")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object when ready")
	addNoCache(c, &f.noCache)
	f.grpc.add(c)
	f.metrics.add(c)
	f.traces.add(c)
	f.clients.add(c)
	f.people.add(c)
	f.sealed.add(c)
	f.control.add(c)
	c.Flags().StringArrayVar(&f.recipes, "train", nil, "train by a `RECIPE` in the gaps that "+
		"requests leave, from its newest checkpoint on; may be repeated (docs/train.md)")
	f.programs.add(c)
	f.file.add(c)
}

func (f *upFlags) run(c *cobra.Command) error {
	began := time.Now()
	if err := f.file.set(c); err != nil {
		return err
	}
	if err := errors.Join(f.control.check(), f.file.keeps(f.memory)); err != nil {
		return err
	}
	if err := f.people.check(); err != nil {
		return err
	}
	s := &service{flags: f, ended: make(chan error, 1)}
	if err := s.open(c); err != nil {
		return errors.Join(err, s.abandon())
	}
	ctx := c.Context()
	if err := s.begin(ctx, c.ErrOrStderr()); err != nil {
		return errors.Join(err, s.stop(ctx))
	}
	defer f.file.watch(shared{s.server, s.programs}, s.log)()
	f.control.watch(ctx, s.server)
	if first := s.people.first; first != "" {
		fmt.Fprintf(c.ErrOrStderr(), "weir: the first token, of account %s, is in %s: keep it "+
			"elsewhere and remove that file\n", firstAccount, first)
	}
	err := f.print(c.OutOrStdout(), s.server, s.where(), time.Since(began))
	if err == nil {
		tellManager(s.log, daemon.SdNotifyReady)
		select {
		case err = <-s.ended:
		case <-ctx.Done():
		}
	}
	return errors.Join(err, s.stop(ctx))
}

// closeAll closes what was listened on.
func closeAll(list ...net.Listener) error {
	var errs []error
	for _, l := range list {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	return errors.Join(errs...)
}

// upInfo is what weir up --json prints.
type upInfo struct {
	HTTP    string  `json:"http"`     // the address
	Page    string  `json:"page"`     // that of the page for browsers
	Metrics string  `json:"metrics"`  // that of /metrics; may be the same
	GRPC    string  `json:"grpc"`     // host and port, "" without gRPC; may be those of HTTP
	Ready   bool    `json:"ready"`    // whether every model could be loaded
	ReadyMS float64 `json:"ready_ms"` // from the begin of the command
}

// endpoints are the addresses of a server, and whether it has accounts.
type endpoints struct {
	http, metrics string
	grpc          string // "" for none
	accounts      bool
}

// print says where the server answers.
func (f *upFlags) print(w io.Writer, s *server.Server, where endpoints, took time.Duration) error {
	scheme := "http://"
	if f.people.certificate != "" {
		scheme = "https://"
	}
	url := scheme + where.http
	if f.asJSON {
		return printJSON(w, upInfo{HTTP: url, Page: url + "/", Metrics: scheme + where.metrics,
			GRPC: where.grpc, Ready: s.Ready(),
			ReadyMS: float64(took) / float64(time.Millisecond)})
	}
	fmt.Fprintf(w, "%s/ is the page\n", url)
	list := s.Models()
	models := "models"
	if len(list) == 1 {
		models = "model"
	}
	fmt.Fprintf(w, "%s serves %d %s after %v, under %s:\n", url, len(list), models,
		took.Round(time.Millisecond), f.policy)
	for _, m := range list {
		var values []string
		for _, v := range m.Inputs {
			values = append(values, v.Name+" "+v.Datatype+strings.ReplaceAll(fmt.Sprint(v.Shape),
				" ", ","))
		}
		line := fmt.Sprintf("  %s, version %s: %s", m.Name, m.Versions[0], strings.Join(values,
			", "))
		fmt.Fprintln(w, terminal.Wrap(line, textWidth(w)))
	}
	if where.grpc != "" {
		fmt.Fprintf(w, "%s answers gRPC\n", where.grpc)
	}
	if len(list) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\n%s\n", try(url, list[0].Name, where.accounts))
	return err
}

// try is a command that has an answer: which digit a picture shows, or what a model takes.
func try(url, name string, accounts bool) string {
	header := ""
	if accounts {
		header = " -H \"Authorization: Bearer $" + tokenVariable + "\""
	}
	if name != "digits" {
		return "curl " + url + "/v2/models/" + name + header
	}
	images, err := digits.Images()
	if err != nil {
		return ""
	}
	var pixels []string
	for _, v := range digits.Input(images[0]) {
		pixels = append(pixels, fmt.Sprintf("%.2g", v))
	}
	return "curl " + url + "/v2/models/digits/infer" + header +
		" -d '{\"inputs\":[{\"name\":\"image\"," +
		"\"datatype\":\"FP32\",\"shape\":[1,1,8,8],\"data\":[" + strings.Join(pixels, ",") +
		"]}],\"outputs\":[{\"name\":\"probabilities\",\"parameters\":{\"classification\":3}}]}'"
}
