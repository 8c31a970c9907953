package main

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestConnections: clients beyond the bound of connections wait until others leave.
func TestConnections(t *testing.T) {
	printed, _ := up(t)
	line, err := printed.ReadString('\n')
	address, told := strings.CutSuffix(strings.TrimPrefix(line, "http://"), "/ is the page\n")
	if !told {
		t.Fatalf("printed %q (%v)", line, err)
	}
	var held []net.Conn
	defer func() {
		for _, c := range held {
			_ = c.Close()
		}
	}()
	for range mostConnections {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Skipf("after %d connections: %v", len(held), err) // of this process's descriptors
		}
		held = append(held, c)
	}
	client := http.Client{Timeout: 200 * time.Millisecond}
	if r, err := client.Get("http://" + address + "/v2"); err == nil {
		t.Errorf("one more is answered: %s", r.Status)
		_ = r.Body.Close()
	}
	for _, c := range held {
		_ = c.Close()
	}
	client.Timeout = 20 * time.Second
	r, err := client.Get("http://" + address + "/v2")
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("once they have left: %v", err)
	}
	_ = r.Body.Close()
}
