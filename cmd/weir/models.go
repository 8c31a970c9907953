package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/sealed"
)

// modelList is what weir model ls prints.
type modelList struct {
	Models []oip.IndexEntry `json:"models"`
}

func newModelList() *cobra.Command {
	var f remoteFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "ls",
		Short: "List the models of a server",
		Long: "List the versions of the models of a server that may be read, with the reason " +
			"where one is not served, and of an ensemble how it is made of others.",
		Args: exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := f.open()
			if err != nil {
				return err
			}
			var l modelList
			err = r.do(c.Context(), "POST", "/v2/repository/index", nil, &l.Models)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), l)
			}
			t := table{{"model", "version", "state", "reason"}}
			for _, e := range l.Models {
				t = append(t, []string{e.Name, e.Version, e.State, cmp.Or(e.Reason, e.Ensemble)})
			}
			t.print(c.OutOrStdout())
			return nil
		},
	}
	f.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// newModelTurn is a command that changes which versions of a model are served.
func newModelTurn(use, short, long, path, done string) *cobra.Command {
	var f remoteFlags
	c := &cobra.Command{
		Use:   use + " NAME",
		Short: short,
		Long:  long,
		Args:  exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			r, err := f.openPatient()
			if err != nil {
				return err
			}
			if err := r.do(c.Context(), "POST", fmt.Sprintf(path, url.PathEscape(args[0])), nil,
				nil); err != nil {
				return err
			}
			say(c.ErrOrStderr(), done, args[0])
			return nil
		},
	}
	f.add(c)
	return c
}

// openPatient is open for what may take long.
func (f *remoteFlags) openPatient() (*remote, error) {
	r, err := f.open()
	if err == nil {
		r.client.Timeout = 0
	}
	return r, err
}

func newModelLoad() *cobra.Command {
	return newModelTurn("load", "Have a server load a model of its folder", "Have a server load a "+
		"model of its folder, or what of it is new or has changed. What is served answers until "+
		"that is ready, and goes on where it fails.", "/v2/repository/models/%s/load",
		"model %s is loaded")
}

func newModelUnload() *cobra.Command {
	return newModelTurn("unload", "Have a server unload a model", "Have a server end a model: "+
		"requests that it has taken are answered, and its memory is given back.",
		"/v2/repository/models/%s/unload", "model %s is unloaded")
}

func newModelRollback() *cobra.Command {
	return newModelTurn("rollback", "Have a server serve again what it served before", "Have a "+
		"server serve again the versions of a model that it served until another one became the "+
		"newest; once more, it goes forth again. That holds until the model is loaded the next "+
		"time.", "/v1/models/%s/rollback", "model %s is rolled back")
}

func newModelPush() *cobra.Command {
	var f remoteFlags
	var version int64
	var load, asJSON bool
	c := &cobra.Command{
		Use:   "push NAME FILE",
		Short: "Put a version of a model into a server's folder",
		Long: "Put a model's file into a server's folder as a new version, whole or not at all. " +
			"The server holds its SHA-256 against the file's. It is served once the model is " +
			"loaded, as --load has it at once.",
		Example: "  weir model push resnet ./resnet.onnx --load",
		Args:    exactly(2),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("version") && version < 1 {
				return fmt.Errorf("--version %d: give a whole number from 1 on", version)
			}
			r, err := f.openPatient()
			if err != nil {
				return err
			}
			return pushModel(c, r, args[0], args[1], version, load, asJSON)
		},
	}
	f.add(c)
	c.Flags().Int64Var(&version, "version", 0, "its `NUMBER` (default: the next one)")
	c.Flags().BoolVar(&load, "load", false, "have the model loaded then")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// pushModel sends a file, and has the model loaded.
func pushModel(c *cobra.Command, r *remote, name, path string, version int64, load,
	asJSON bool) error {
	if filepath.Ext(path) == sealed.Extension {
		return fmt.Errorf("%s: a model that is encrypted at rest is not sent: put it into the "+
			"server's folder", path)
	}
	where := "/v1/models/" + url.PathEscape(name)
	if version > 0 {
		where += "/" + strconv.FormatInt(version, 10)
	}
	var p server.Pushed
	if err := r.sendFile(c.Context(), where, path, &p); err != nil {
		return err
	}
	if load {
		if err := r.do(c.Context(), "POST", "/v2/repository/models/"+url.PathEscape(name)+"/load",
			nil, nil); err != nil {
			return fmt.Errorf("version %s is in the server's folder, and: %w", p.Version, err)
		}
	}
	if asJSON {
		return printJSON(c.OutOrStdout(), p)
	}
	say(c.ErrOrStderr(), "model %s has version %s, of %d bytes", p.Model, p.Version, p.Bytes)
	return nil
}

// sendFile puts a file to a path of the server, with its digest.
func (r *remote) sendFile(ctx context.Context, where, path string, to any) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, file)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	q, err := http.NewRequestWithContext(ctx, "PUT", r.url+where, file)
	if err != nil {
		return err
	}
	q.ContentLength = size
	q.Header.Set("Content-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum.Sum(nil))+":")
	answer, err := r.exchange(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	from := json.NewDecoder(io.LimitReader(answer.Body, mostAnswer))
	if err := from.Decode(to); err != nil {
		return failed(fmt.Errorf("server %s: PUT %s: %w", r.url, where, err))
	}
	return nil
}
