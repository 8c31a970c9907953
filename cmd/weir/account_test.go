package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// answering waits until weir up --json answers, and has commands ask it.
func answering(t *testing.T, printed *bufio.Reader) string {
	t.Helper()
	var got struct{ HTTP string }
	if err := json.NewDecoder(printed).Decode(&got); err != nil {
		t.Fatal(err)
	}
	t.Setenv(serverVariable, got.HTTP)
	return got.HTTP
}

// firstToken has commands send the token that the first start made.
func firstToken(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, "admin-token")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its file: %v, %v", info.Mode(), err)
	}
	t.Setenv(tokenVariable, string(b))
}

// post is the status of a request with the token that commands send.
func post(t *testing.T, url string, body io.Reader) int {
	t.Helper()
	return statusOf(t, "POST", url, strings.TrimSpace(os.Getenv(tokenVariable)), body)
}

// asked is the status of a request with a token.
func asked(t *testing.T, method, url, token string) int {
	t.Helper()
	return statusOf(t, method, url, token, nil)
}

func statusOf(t *testing.T, method, url, token string, body io.Reader) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

// TestAccounts: from the first start to a lost token, by commands only: accounts with rights and
// tokens, what they may, the audit of it, and its backup.
func TestAccounts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	marks := filepath.Join(t.TempDir(), "checkpoints")
	printed, end := up(t, "--json", "--state", dir, "--accounts", "--audit-checkpoints", marks)
	url := answering(t, printed)
	firstToken(t, dir)
	done(t, "account", "add", "ann", "--rights", "read", "--models", "dig*", "--queue", "5")
	token := strings.TrimSpace(done(t, "account", "token", "new", "ann", "--name", "laptop",
		"--expires", "1h").out)
	digits, other := url+"/v2/models/digits", url+"/v2/models/other"
	for _, c := range []struct {
		method, url, token string
		want               int
	}{{"GET", digits, token, 200}, {"GET", digits, "", 401}, {"GET", other, token, 403},
		{"POST", digits + "/infer", token, 403}, {"GET", url + "/v2/health/ready", "", 200},
		{"GET", url + "/v1/accounts", token, 403}} {
		if got := asked(t, c.method, c.url, c.token); got != c.want {
			t.Errorf("%s %s: status %d, want %d", c.method, c.url, got, c.want)
		}
	}
	done(t, "account", "grant", "ann", "infer,load")
	if got := asked(t, "POST", digits+"/infer", token); got != 400 {
		t.Errorf("once granted: status %d", got)
	}
	done(t, "account", "revoke", "ann", "load")
	list := done(t, "account", "ls", "--json").object(t, "accounts")["accounts"].([]any)
	ann := list[1].(map[string]any)
	if ann["name"] != "ann" || ann["queue"] != 5.0 || len(ann["grants"].([]any)) != 2 {
		t.Errorf("accounts: %v", list)
	}
	for _, c := range []struct {
		args  []string
		shows string
	}{{[]string{"account", "ls"}, "infer on *; read on dig*"},
		{[]string{"account", "token", "ls", "--account", "ann"}, "laptop"},
		{[]string{"audit", "show"}, "ann: infer,load on *"}} {
		if got := done(t, c.args...).out; !strings.Contains(got, c.shows) {
			t.Errorf("%v shows\n%s", c.args, got)
		}
	}
	done(t, "account", "token", "revoke", "ann", "laptop")
	if got := asked(t, "GET", digits, token); got != 401 {
		t.Errorf("once revoked: status %d", got)
	}
	done(t, "account", "rm", "ann")
	for says, args := range map[string][]string{"another weir uses it": {"account", "init",
		"--state", dir}, "it is the last": {"account", "rm", "admin"},
		"there is none": {"account", "rm", "bob"},
		"another weir":  {"backup", filepath.Join(t.TempDir(), "x"), "--state", dir}} {
		if c := weir(t, args...); c.code != 1 || !strings.Contains(c.talk, says) {
			t.Errorf("%v: exit code %d: %s", args, c.code, c.talk)
		}
	}
	if code := end(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	afterwards(t, dir, marks)
}

// afterwards is what holds once the server has ended: its audit, a backup of it, and a token for
// who has none.
func afterwards(t *testing.T, dir, marks string) {
	verify := []string{"audit", "verify", "--state", dir, "--checkpoints", marks}
	r := done(t, append(verify, "--json")...).object(t, "records", "checkpoints", "held")
	if r["records"] != r["protected"] || r["held"] != true || r["records"].(float64) < 10 {
		t.Errorf("the audit: %v", r)
	}
	shown := done(t, "audit", "show", "--state", dir, "--json").object(t)["records"].([]any)
	var what []string
	for _, r := range shown {
		what = append(what, r.(map[string]any)["what"].(string))
	}
	for _, w := range []string{"server start", "account add", "token add", "account grant",
		"account revoke", "infer", "model metadata", "account list", "token revoke", "account rm",
		"server stop"} {
		if !slices.Contains(what, w) {
			t.Errorf("no %s in the audit: %q", w, what)
		}
	}
	backup := filepath.Join(t.TempDir(), "backup.tar")
	done(t, "backup", backup, "--state", dir)
	token := strings.TrimSpace(done(t, "account", "init", "boss", "--state", dir).out)
	if !strings.HasPrefix(token, "weir_") {
		t.Errorf("printed %q", token)
	}
	c := done(t, append(verify, "--key", filepath.Join(dir, "audit.key.pub"))...)
	if !strings.Contains(c.out, "those after may have been cut off") {
		t.Errorf("records without a checkpoint: %s", c.out)
	}
	if c := done(t, "restore", backup, "--state", dir); !strings.Contains(c.talk,
		"what was there is in "+dir+"/replaced-") {
		t.Errorf("restore says %q", c.talk)
	}
	done(t, verify...)
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, "state.db-wal")),
		os.WriteFile(filepath.Join(dir, "state.db"), []byte("no database"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"account", "init", "--state", dir}, verify,
		{"backup", backup, "--state", dir}, {"up", "--http", "localhost:0", "--state", dir}} {
		if c := weir(t, args...); c.code != 1 || !strings.Contains(c.talk, "the file is damaged") {
			t.Errorf("%v on a damaged file: exit code %d: %s", args, c.code, c.talk)
		}
	}
}

// TestPrintedAccounts runs the lines about accounts that docs/serve.md prints: those that ask a
// server, then those that need one that is stopped, and those about the audit on what it left.
func TestPrintedAccounts(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "serve.md"))
	if err != nil {
		t.Fatal(err)
	}
	marks := filepath.Join(t.TempDir(), "checkpoints")
	lines := map[string][][]string{}
	for _, line := range shellLines(string(text)) {
		words := strings.Fields(strings.NewReplacer("'", "", "/mnt/elsewhere/audit", marks,
			"audit.key.pub", "state/audit.key.pub").Replace(line))
		if words[0] == "weir" {
			lines[words[1]] = append(lines[words[1]], words[1:])
		}
	}
	printed, end := up(t, "--json", "--state", "state", "--accounts", "--audit-checkpoints", marks)
	answering(t, printed)
	firstToken(t, "state")
	ran := 0
	for _, name := range []string{"account", "backup", "restore", "audit"} {
		for _, words := range lines[name] {
			if name == "audit" {
				words = append(words, "--state", "state")
			}
			done(t, words...)
			ran++
		}
		end()
	}
	if ran < 7 {
		t.Errorf("only %d lines were run", ran)
	}
}

// TestAccountWidths holds that what is printed of accounts fits lines of 40 and of 80 columns.
func TestAccountWidths(t *testing.T) {
	t.Setenv("LC_ALL", "C")
	dir := t.TempDir()
	printed, _ := up(t, "--json", "--state", dir, "--accounts")
	answering(t, printed)
	firstToken(t, dir)
	for i, width := range []string{"40", "80"} {
		t.Setenv("COLUMNS", width)
		name := strings.Repeat("long-", 7) + strconv.Itoa(i)
		for _, args := range [][]string{{"account", "add", name, "--certificate",
			"CN=" + name + ",O=example"}, {"account", "grant", name, "read,infer,load"},
			{"account", "revoke", name, "load"}, {"account", "ls"}, {"account", "token", "ls"},
			{"audit", "show"}, {"audit", "verify"}} {
			got, columns := done(t, args...), 40*(i+1)
			fits(t, strings.Join(args, " "), got.out+got.talk, columns, nil)
		}
	}
}

// TestUpWritesNothing: without accounts a start leaves nothing behind.
func TestUpWritesNothing(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_STATE_HOME", "")
	printed, end := up(t, "--json", "--no-cache")
	url := answering(t, printed)
	if got := asked(t, "GET", url+"/v2/models/digits", ""); got != 200 {
		t.Errorf("status %d", got)
	}
	if got := asked(t, "GET", url+"/v1/accounts", ""); got != 404 {
		t.Errorf("accounts without accounts: status %d", got)
	}
	end()
	if left, err := os.ReadDir(home); len(left) > 0 || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestUpKeepsAccounts: where --state has accounts, they are asked for without another flag.
func TestUpKeepsAccounts(t *testing.T) {
	dir := t.TempDir()
	done(t, "account", "init", "--state", dir)
	printed, _ := up(t, "--json", "--state", dir)
	if got := asked(t, "GET", answering(t, printed)+"/v2", ""); got != 401 {
		t.Errorf("status %d", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "admin-token")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a second first token was made")
	}
}

// TestUpInterrupted: a start that was interrupted before the first token was in its file, when the
// account was there already, is made up for by the next one.
func TestUpInterrupted(t *testing.T) {
	dir := t.TempDir()
	done(t, "account", "init", "--state", dir) // as if what it prints were lost
	if err := os.WriteFile(filepath.Join(dir, "admin-token"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	printed, _ := up(t, "--json", "--state", dir)
	url := answering(t, printed)
	firstToken(t, dir)
	if got := asked(t, "GET", url+"/v1/accounts", strings.TrimSpace(
		os.Getenv(tokenVariable))); got != 200 {
		t.Errorf("status %d", got)
	}
}

// TestUpTLS: on an address that others reach the server speaks TLS, and asks for accounts by
// itself; commands talk to it with the authority of its certificate.
func TestUpTLS(t *testing.T) {
	dir := t.TempDir()
	certificate, key := selfSigned(t)
	printed, _ := up(t, "--json", "--http", "0.0.0.0:0", "--tls-cert", certificate, "--tls-key",
		key, "--state", dir)
	url := answering(t, printed)
	if !strings.HasPrefix(url, "https://") {
		t.Fatalf("it answers on %s", url)
	}
	_, port, err := net.SplitHostPort(strings.TrimPrefix(url, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(serverVariable, "https://127.0.0.1:"+port)
	if c := weir(t, "account", "ls"); c.code != 1 || !strings.Contains(c.talk,
		"--ca names the file of its authority") {
		t.Errorf("without the authority: exit code %d: %s", c.code, c.talk)
	}
	if c := weir(t, "account", "ls", "--ca", certificate); c.code != 1 ||
		!strings.Contains(c.talk, "send a token") {
		t.Errorf("without a token: exit code %d: %s", c.code, c.talk)
	}
	firstToken(t, dir)
	if c := done(t, "account", "ls", "--ca", certificate); !strings.Contains(c.out, "admin on *") {
		t.Errorf("accounts: %s", c.out)
	}
}

// TestTokensStayPrivate: a token is not sent where others could read it.
func TestTokensStayPrivate(t *testing.T) {
	t.Setenv(tokenVariable, "weir_x_y")
	if c := weir(t, "account", "ls", "--server", "http://weir.example"); c.code != 2 ||
		!strings.Contains(c.talk, "others on the way could read the token") {
		t.Errorf("exit code %d: %s", c.code, c.talk)
	}
	if c := weir(t, "account", "ls", "--server", "weir.example"); c.code != 2 ||
		!strings.Contains(c.talk, "give a URL") {
		t.Errorf("exit code %d: %s", c.code, c.talk)
	}
}

// selfSigned makes a certificate for 127.0.0.1 that is its own authority.
func selfSigned(t *testing.T) (certificate, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "weir"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certificate, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, b := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: der},
		key: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certificate, key
}
