package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// chart fills in the chart of weir as Helm does, as far as its templates use Helm. Values are all
// that it has: one that is missing here is an error.
func chart(source string, values map[string]any) (string, error) {
	files, err := filepath.Glob(filepath.Join(source, "kube", "chart", "templates", "*.yaml"))
	if err != nil || len(files) == 0 {
		return "", fmt.Errorf("%s: has no chart: %w", source, os.ErrNotExist)
	}
	var all strings.Builder
	all.WriteString("apiVersion: v1\nkind: Namespace\nmetadata: {name: weir}\n")
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return "", err
		}
		t, err := template.New(f).Option("missingkey=error").Funcs(template.FuncMap{
			"quote": func(s string) string { return `"` + s + `"` }}).Parse(string(text))
		if err != nil {
			return "", err
		}
		all.WriteString("---\n")
		if err := t.Execute(&all, map[string]any{"Values": values,
			"Release": map[string]any{"Namespace": "weir"}}); err != nil {
			return "", err
		}
	}
	return all.String(), nil
}
