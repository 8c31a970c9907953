package server

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/weirgpu/weir/server/oip"
)

// mostSettings is how many bytes a change of settings may have.
const mostSettings = 64 << 10

// TraceSettings are the settings of traces, for a model or, if that is "", for all without settings
// of their own; changes are made first, as telemetry.Recorder.SetTrace has them, where they are not
// nil. The error is an *oip.Fault.
func (s *Server) TraceSettings(model string, changes map[string][]string) (map[string][]string,
	error) {
	if model != "" {
		if _, err := s.look(model, ""); err != nil {
			return nil, err
		}
	}
	if changes == nil {
		return s.rec.TraceSettings(model), nil
	}
	return s.rec.SetTrace(model, changes)
}

// LogSettings are the settings of logs; changes are made first, as telemetry.Logs.Set has them,
// where they are not nil. The error is an *oip.Fault.
func (s *Server) LogSettings(changes map[string]any) (map[string]any, error) {
	switch {
	case s.o.Logs == nil:
		return nil, oip.Faultf(oip.Unsupported, "the logs of this server are not its own to set")
	case changes == nil:
		return s.o.Logs.Settings(), nil
	}
	return s.o.Logs.Set(changes)
}

func (s *Server) traceSettings(w http.ResponseWriter, r *http.Request) error {
	var changes map[string][]string
	if r.Method == http.MethodPost {
		given, err := settings(w, r)
		if err != nil {
			return err
		}
		if changes, err = traceChanges(given); err != nil {
			return err
		}
	}
	now, err := s.TraceSettings(r.PathValue("model"), changes)
	if err != nil {
		return err
	}
	shown := map[string]any{}
	for name, values := range now {
		shown[name] = values[0]
		if name == "trace_level" { // which Triton has as a list
			shown[name] = values
		}
	}
	write(w, http.StatusOK, shown)
	return nil
}

// traceChanges reads settings that are texts, lists of texts, or null.
func traceChanges(given map[string]any) (map[string][]string, error) {
	changes := map[string][]string{}
	for name, v := range given {
		list, isList := v.([]any)
		if !isList && v != nil {
			list = []any{v}
		}
		changes[name] = nil
		for _, one := range list {
			text, ok := one.(string)
			if !ok {
				return nil, oip.Faultf(oip.Invalid, "%.40q is a text, a list of texts, or null",
					name)
			}
			changes[name] = append(changes[name], text)
		}
	}
	return changes, nil
}

func (s *Server) logSettings(w http.ResponseWriter, r *http.Request) error {
	var changes map[string]any
	if r.Method == http.MethodPost {
		var err error
		if changes, err = settings(w, r); err != nil {
			return err
		}
	}
	now, err := s.LogSettings(changes)
	if err != nil {
		return err
	}
	write(w, http.StatusOK, now)
	return nil
}

// settings reads an object of JSON; a body of no bytes is one without members.
func settings(w http.ResponseWriter, r *http.Request) (map[string]any, error) {
	given := map[string]any{}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostSettings)).Decode(&given)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, oip.Faultf(oip.Invalid, "the body is no object of JSON: %v", err)
	}
	if given == nil { // null
		given = map[string]any{}
	}
	return given, nil
}
