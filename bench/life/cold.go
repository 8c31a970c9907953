package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/internal/claims"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/plan/cache"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/client"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/repo"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/zoo"
)

// mostCold is how much longer a first answer may take than the model's start in a process that has
// it alone: serving.md, section 3.
const mostCold = 1.1

// coldModels are those that are loaded, by the names of zoo, which all take a picture.
var coldModels = []string{"mobilenetv2", "resnet50"}

// coldResult is how long models take that are not loaded.
type coldResult struct {
	Models []coldModel `json:"models"`
}

// coldModel is one of them, in medians.
type coldModel struct {
	Model string `json:"model"`
	// Start is the time from the call that opens the file to the first outputs, with a plan that
	// is kept, and Served that from the request to load to the first answer, over HTTP.
	Start  float64 `json:"start_ms"`
	Served float64 `json:"served_ms"`
	// Load is, of Served, what passes before the request to load is answered.
	Load  float64 `json:"load_ms"`
	Ratio float64 `json:"ratio"` // of the two, in the median of rounds
	Bound float64 `json:"bound"`
	// Echo is what the same requests take of a server that does nothing, after a start as well:
	// less than Start and Echo no answer can take. Least is what Ratio would be then.
	Echo  float64 `json:"echo_ms"`
	Least float64 `json:"least_ratio"`
}

func (r *coldResult) ok() bool {
	return !slices.ContainsFunc(r.Models, func(m coldModel) bool {
		return !(m.Ratio > 0 && m.Ratio <= m.Bound) // 0 is of no round
	})
}

// coldSite is a server without models, and the folder that it loads them from.
type coldSite struct {
	folder, cache string
	server        *server.Server
	http, nothing *http.Server
	client, echo  client.Client
}

// cold starts each model so often, in this process and in a server, in turn. Files are in the page
// cache, and plans are kept, for both. A server loads models behind all else that the machine does,
// so that only a machine that does nothing else tells.
func cold(n int) (_ *coldResult, err error) {
	dir, err := os.MkdirTemp("", "weir-cold")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	x := &coldSite{folder: filepath.Join(dir, "models"), cache: filepath.Join(dir, "plans")}
	if err := errors.Join(os.Mkdir(x.cache, 0o700), x.begin()); err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, x.http.Close(), x.nothing.Close(), x.server.Close())
	}()
	r := &coldResult{}
	for _, name := range coldModels {
		m, err := x.measure(name, n)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		r.Models = append(r.Models, *m)
	}
	return r, nil
}

// begin serves nothing yet.
func (x *coldSite) begin() (err error) {
	x.server, err = server.New(server.Options{Log: slog.New(slog.DiscardHandler),
		Catalogue: &server.Folder{Path: x.folder, Options: x.options()}})
	if err != nil {
		return err
	}
	x.http = server.HTTP(x.server, slog.New(slog.DiscardHandler))
	answer := make([]byte, 4096)
	x.nothing = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(answer)
	})}
	err = errors.Join(x.server.LoadAll(context.Background(), nil),
		listen(&x.client, func(on net.Listener) error { return x.server.Serve(on, x.http) }),
		listen(&x.echo, x.nothing.Serve))
	if err != nil {
		return errors.Join(err, x.server.Close())
	}
	return nil
}

// listen serves on a port of loopback, which c asks.
func listen(c *client.Client, serve func(net.Listener) error) error {
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	c.URL = "http://" + on.Addr().String()
	go func() { _ = serve(on) }()
	return nil
}

func (x *coldSite) options() []weir.Option { return []weir.Option{weir.WithCache(x.cache)} }

// write writes a model where the server finds it.
func (x *coldSite) write(name string) (path string, input string, err error) {
	g, err := zoo.New(name, zoo.Options{})
	if err != nil {
		return "", "", err
	}
	path = filepath.Join(x.folder, name, "1", repo.File)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", "", err
	}
	return path, g.Inputs[0].Name, onnx.WriteFile(path, g, onnx.WriteOptions{})
}

// measure starts one model n times either way, after once that no time is taken of.
func (x *coldSite) measure(name string, n int) (*coldModel, error) {
	path, input, err := x.write(name)
	if err != nil {
		return nil, err
	}
	time.Sleep(2 * cache.Settled) // of younger files no plan is kept
	picture := tensor.From(make([]float32, 3*224*224), 1, 3, 224, 224)
	p, err := client.Prepare(name, "", &oip.Request{Inputs: []oip.Input{{Name: input,
		Tensor: picture}}})
	if err != nil {
		return nil, err
	}
	var alone, served, loads, ratios, echoes, least []float64
	for i := range n + 1 {
		a, err := x.start(path, weir.Inputs{input: picture})
		if err != nil {
			return nil, err
		}
		e, err := x.exchange(p)
		if err != nil {
			return nil, err
		}
		s, load, err := x.serve(name, p)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			continue // plans are made, and kept
		}
		alone, served, loads = append(alone, a), append(served, s), append(loads, load)
		ratios = append(ratios, s/a)
		echoes, least = append(echoes, e), append(least, (a+e)/a)
	}
	return &coldModel{Model: name, Start: claims.Median(alone),
		Served: claims.Median(served), Load: claims.Median(loads), Ratio: claims.Median(ratios),
		Bound: mostCold, Echo: claims.Median(echoes), Least: claims.Median(least)}, nil
}

// start opens a model and runs it once, and returns how many milliseconds that took.
func (x *coldSite) start(path string, in weir.Inputs) (ms float64, err error) {
	began := time.Now()
	m, err := weir.Open(path, x.options()...)
	if err != nil {
		return 0, err
	}
	out, err := m.Run(context.Background(), in)
	ms = sinceMS(began)
	if err == nil {
		out.Close()
	}
	return ms, errors.Join(err, m.Close())
}

// exchange sends to who does nothing what serve sends, and returns how many milliseconds that took.
func (x *coldSite) exchange(p *client.Prepared) (ms float64, err error) {
	began := time.Now()
	err = errors.Join(post(x.echo.URL), x.echo.Send(context.Background(), p))
	return sinceMS(began), err
}

// serve has the server load a model and answer one request, and then unload it.
func (x *coldSite) serve(name string, p *client.Prepared) (ms, load float64, err error) {
	ctx := context.Background()
	began := time.Now()
	if err := post(x.client.URL + "/v2/repository/models/" + name + "/load"); err != nil {
		return 0, 0, err
	}
	load = sinceMS(began)
	if err := x.client.Send(ctx, p); err != nil {
		return 0, 0, err
	}
	return sinceMS(began), load, post(x.client.URL + "/v2/repository/models/" + name + "/unload")
}

// post asks for what has no body.
func post(url string) error {
	r, err := http.Post(url, "", nil)
	if err != nil {
		return err
	}
	if r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, r.Status)
	}
	_, e := io.Copy(io.Discard, r.Body) // so that the connection is kept
	return errors.Join(err, e, r.Body.Close())
}

func sinceMS(t time.Time) float64 { return float64(time.Since(t)) / float64(time.Millisecond) }
