package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	_ "google.golang.org/grpc/reflection/grpc_reflection_v1"
	_ "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/weirgpu/weir/server/auth"
)

// grantee is an account with one right on the models of a pattern.
type grantee struct {
	name    string
	right   auth.Rights
	pattern string
	token   string
}

// may is whether the account may use an endpoint about the model digits.
func (g *grantee) may(e *auth.Endpoint) bool {
	has := g.right&e.Right != 0 || g.right == auth.Admin
	switch e.Scope {
	case auth.Some:
		return has
	case auth.OfModel:
		return has && g.pattern != "n-*"
	case auth.OfAll:
		return has && g.pattern == "*"
	}
	return true
}

// account is the one that a path of an endpoint names: its own where that is what it may.
func (g *grantee) account(e *auth.Endpoint) string {
	if e.Scope == auth.Self {
		return g.name
	}
	return "nobody"
}

// TestRightsOfEndpoints asks a server for everything that it has, over both protocols and real
// connections, with each right on all models, on the one that is asked for and on others, and
// without an account: what the table says is what is refused.
func TestRightsOfEndpoints(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	printed, _ := up(t, "--json", "--grpc", "localhost:0", "--state", dir, "--accounts")
	var at struct{ HTTP, GRPC string }
	if err := json.NewDecoder(printed).Decode(&at); err != nil {
		t.Fatal(err)
	}
	t.Setenv(serverVariable, at.HTTP)
	firstToken(t, dir)
	var all []grantee
	for _, right := range []auth.Rights{auth.Read, auth.Infer, auth.Load, auth.Push, auth.Job,
		auth.Admin} {
		for i, pattern := range []string{"*", "digits", "n-*"} {
			name := fmt.Sprint(right, "-", i)
			done(t, "account", "add", name, "--rights", right.String(), "--models", pattern)
			token := done(t, "account", "token", "new", name, "--name", "x", "--expires", "1h").out
			all = append(all, grantee{name, right, pattern, strings.TrimSpace(token)})
		}
	}
	conn, err := grpc.NewClient(at.GRPC, grpc.WithTransportCredentials(
		insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	concrete := strings.NewReplacer("{model}", "digits", "{version}", "1", "{$}", "", "{job}", "7",
		"{region}", "r", "{token}", "y", "/assets/", "/assets/page.js").Replace
	n := 0
	for i := range auth.Endpoints {
		e := &auth.Endpoints[i]
		for _, pattern := range e.HTTP {
			method, path, _ := strings.Cut(concrete(pattern), " ")
			for _, g := range all {
				n++
				to := strings.Replace(path, "{account}", g.account(e), 1)
				if s := asked(t, method, at.HTTP+to, g.token); (s == 403) == g.may(e) || s == 401 {
					t.Errorf("%s with %v on %s: %d", pattern, g.right, g.pattern, s)
				}
			}
			if s := asked(t, method, at.HTTP+path, ""); (s == 401) == (e.Scope == auth.Anyone) {
				t.Errorf("%s without an account: %d", pattern, s)
			}
		}
		for _, method := range e.RPC {
			for _, g := range all {
				n++
				if says := dialled(t, conn, method, g.token, e.Changes); strings.Contains(says,
					"has no right to") == g.may(e) || strings.Contains(says, "Unauthenticated") {
					t.Errorf("%s with %v on %s: %s", method, g.right, g.pattern, says)
				}
			}
			if says := dialled(t, conn, method, "", e.Changes); strings.Contains(says,
				"Unauthenticated") == (e.Scope == auth.Anyone) {
				t.Errorf("%s without an account: %s", method, says)
			}
		}
	}
	if n < 1500 {
		t.Errorf("%d requests only", n)
	}
}

// dialled says what an RPC about the model digits is answered: of its error, or of the error in its
// first answer, "" for none. Where it may both ask and change, it does the latter if it is to.
func dialled(t *testing.T, c *grpc.ClientConn, method, token string, changes bool) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	stream, err := c.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		method)
	if err != nil {
		return err.Error()
	}
	in, out := messagesOf(t, method, changes)
	_ = stream.SendMsg(in) // whose error RecvMsg has
	_ = stream.CloseSend()
	err = stream.RecvMsg(out)
	if err != nil && err != io.EOF {
		return err.Error()
	}
	text, _ := proto.Marshal(out)
	return string(bytes.ToValidUTF8(text, nil))
}

// messagesOf are a request for a method about the model digits, and room for its answer.
func messagesOf(t *testing.T, method string, changes bool) (in, out proto.Message) {
	t.Helper()
	name := strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", ".")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		t.Fatal(err)
	}
	of := found.(protoreflect.MethodDescriptor)
	made := func(d protoreflect.MessageDescriptor) protoreflect.Message {
		kind, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
		if err != nil {
			t.Fatal(err)
		}
		return kind.New()
	}
	m := made(of.Input())
	for _, field := range []protoreflect.Name{"name", "model_name"} {
		if f := of.Input().Fields().ByName(field); f != nil {
			m.Set(f, protoreflect.ValueOfString("digits"))
		}
	}
	if f := of.Input().Fields().ByName("settings"); f != nil && changes {
		all := m.Mutable(f).Map()
		all.Set(protoreflect.ValueOfString("none").MapKey(), all.NewValue())
	}
	return m.Interface(), made(of.Output()).Interface()
}

// TestAskedForNothing: who asks for what there is not is in the audit.
func TestAskedForNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	printed, end := up(t, "--json", "--state", dir, "--accounts")
	url := answering(t, printed)
	firstToken(t, dir)
	done(t, "account", "add", "ann", "--rights", "read")
	token := strings.TrimSpace(done(t, "account", "token", "new", "ann", "--name", "x",
		"--expires", "1h").out)
	if s := asked(t, "POST", url+"/v1/secrets", token); s != http.StatusNotFound {
		t.Errorf("status %d", s)
	}
	end() // what was refused is written within a second, or at the end
	if got := done(t, "audit", "show", "--state", dir).out; !strings.Contains(got,
		"POST /v1/secrets") {
		t.Errorf("the audit shows\n%s", got)
	}
}
