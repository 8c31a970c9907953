package repo

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirgpu/weir/server/oip"
)

// ConfigFile is the name of the file that holds a model's configuration.
const ConfigFile = "config.pbtxt"

// The most bytes of a configuration, and of a file of labels.
const (
	mostConfig = 1 << 20
	mostLabels = 16 << 20
)

// readConfig reads the configuration in a model's folder; it is nil where there is none.
func readConfig(folder string) (*oip.Config, string, error) {
	b, err := readFile(filepath.Join(folder, ConfigFile), mostConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	c, err := ParseConfig(string(b))
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", ConfigFile, err)
	}
	return c, string(b), nil
}

// ParseConfig reads a configuration in the text format of protocol buffers, as Triton's
// model_config.proto defines it. The error says the line: of a key that there is not, too. Whether
// the configuration can be heeded is for package server to say.
func ParseConfig(text string) (*oip.Config, error) {
	c := &oip.Config{}
	if err := readText(text, c); err != nil {
		return nil, err
	}
	return c, CheckConfig(c)
}

// CheckConfig reports what a configuration cannot say, whatever its model.
func CheckConfig(c *oip.Config) error {
	if f := c.DefaultModelFilename; f != "" && (f != filepath.Base(f) || f[0] == '.' ||
		strings.ContainsAny(f, "/\\\x00")) {
		return fmt.Errorf("default_model_filename is %.100q: give the name of a file in the "+
			"folder of a version", f)
	}
	for _, p := range []struct {
		what string
		set  []bool
	}{
		{"dynamic_batching, sequence_batching, ensemble_scheduling", []bool{
			c.DynamicBatching != nil, c.SequenceBatching != nil, c.EnsembleScheduling != nil}},
		{"version_policy: latest, all, specific", []bool{c.VersionPolicy.Latest != nil,
			c.VersionPolicy.All != nil, c.VersionPolicy.Specific != nil}},
	} {
		n := 0
		for _, set := range p.set {
			if set {
				n++
			}
		}
		if n > 1 {
			return fmt.Errorf("%s: give one of them", p.what)
		}
	}
	return nil
}

// labels reads the files of labels that a configuration names, one label a line.
func (m *Model) labels() (all map[string][]string, texts string, err error) {
	for _, o := range m.Config.Output {
		if o.LabelFilename == "" {
			continue
		}
		b, err := m.Read(o.LabelFilename, mostLabels)
		if err != nil {
			return nil, "", fmt.Errorf("output %s: label_filename: %w", o.Name, err)
		}
		texts += string(b)
		if all == nil {
			all = map[string][]string{}
		}
		for line := range strings.Lines(string(b)) {
			all[o.Name] = append(all[o.Name], strings.TrimRight(line, "\r\n"))
		}
	}
	return all, texts, nil
}

// Read reads a file of a model by its path below the model's folder, of so many bytes at most. What
// lies outside of the folder is not read.
func (m *Model) Read(path string, most int64) ([]byte, error) {
	if !filepath.IsLocal(path) {
		return nil, fmt.Errorf("%.200q is not in the folder of the model", path)
	}
	root, err := os.OpenRoot(m.Folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, path, most)
}

func readFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, filepath.Base(path), most)
}

func readAll(f io.Reader, name string, most int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return b, err
}
