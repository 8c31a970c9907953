package server

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/repo"
)

// This file is models that are loaded with a configuration or with files that come with the request
// (Triton, extension_model_repository.md: the parameters config and file:). They are as they are
// until the model is loaded the next time, and are not written anywhere.

// overrides are what a request to load brings along.
type overrides struct {
	config *oip.Config
	text   string
	files  map[string][]byte
}

// overridden reads the parameters of a request to load; nil where it brings nothing along.
func overridden(name string, p oip.Parameters) (*overrides, error) {
	o := &overrides{files: map[string][]byte{}}
	for key, value := range p {
		path, file := strings.CutPrefix(key, "file:")
		if !file && key != "config" {
			continue
		}
		text, ok := value.(string)
		if !ok {
			return nil, oip.Faultf(oip.Invalid, "parameter %.100s: give a string", key)
		}
		if !file {
			o.text = text
			continue
		}
		o.files[path] = []byte(text)
	}
	switch {
	case o.text == "" && len(o.files) == 0:
		return nil, nil
	case o.text == "":
		return nil, oip.Faultf(oip.Invalid, "parameter file: needs the parameter config too")
	}
	var err error
	if o.config, err = repo.ParseJSON(o.text); err != nil {
		return nil, oip.Faultf(oip.Invalid, "failed to load %.200q: parameter config: %v", name,
			err)
	}
	return o, nil
}

// overridden is the model that a request brings along.
func (f *Folder) overridden(ctx context.Context, name string, o *overrides) (Offer, error) {
	if len(o.files) > 0 {
		return o.offer(name, f.options())
	}
	if err := f.bring(ctx, name); err != nil {
		return Offer{}, err
	}
	m, err := repo.Find(f.Path, name, o.config)
	if err != nil {
		return Offer{}, err
	}
	return f.Offer(&m), nil
}

// offer is a model of the files alone.
func (o *overrides) offer(name string, options []weir.Option) (Offer, error) {
	file := repo.File
	if o.config.DefaultModelFilename != "" {
		file = o.config.DefaultModelFilename
	}
	content := map[int64][]byte{}
	var numbers []int64
	for path, b := range o.files {
		folder, base, _ := strings.Cut(path, "/")
		n, ok := repo.Number(folder)
		if !ok || base != file {
			return Offer{}, oip.Faultf(oip.Misplaced, "failed to poll from model repository: "+
				"parameter file:%.200s: give VERSION/%s", path, file)
		}
		content[n] = b
		numbers = append(numbers, n)
	}
	served, err := repo.Given(name, numbers, o.config)
	if err != nil {
		return Offer{}, oip.Faultf(oip.Invalid, "model %s: %v", name, err)
	}
	offer := Offer{Name: name}
	for _, n := range served {
		offer.Sources = append(offer.Sources, Source{Name: name, Version: n, Config: o.config,
			Read: noFiles, Open: func() (*weir.Model, error) {
				return weir.Load(content[n], options...)
			}})
	}
	return offer, nil
}

// noFiles is Source.Read of models without a folder.
func noFiles(path string, _ int64) ([]byte, error) {
	return nil, fmt.Errorf("%.200q did not come with the model", path)
}

// unwrap decodes the files of a request in JSON, which are in base64.
func unwrap(p oip.Parameters) error {
	for key, value := range p {
		text, ok := value.(string)
		if !strings.HasPrefix(key, "file:") || !ok {
			continue
		}
		b, err := base64.StdEncoding.AppendDecode(nil, bytes.TrimSpace([]byte(text)))
		if err != nil {
			return oip.Faultf(oip.Invalid, "parameter %.200s: it is no base64: %v", key, err)
		}
		p[key] = string(b)
	}
	return nil
}
