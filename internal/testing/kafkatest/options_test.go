package kafkatest

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

func TestOptionsValidate(t *testing.T) {
	tests := map[string]struct {
		options Options
		problem string // empty: none
	}{
		"default":            {Options{}, ""},
		"one broker":         {Options{Brokers: 1}, ""},
		"nine brokers":       {Options{Brokers: 9}, ""},
		"ten brokers":        {Options{Brokers: 10}, "Brokers is 10"},
		"client auth":        {Options{ClientAuth: true}, "without TLS"},
		"mechanism":          {Options{SASL: []string{"GSSAPI"}, Users: map[string]string{"a": "b"}}, `"GSSAPI"`},
		"no users":           {Options{SASL: []string{"PLAIN"}}, "needs Users"},
		"bracket":            {Options{Users: map[string]string{"a": "b]"}}, `user "a"`},
		"space is fine":      {Options{SASL: []string{"PLAIN"}, Users: map[string]string{"a": "b c"}}, ""},
		"empty password":     {Options{Users: map[string]string{"a": ""}}, `user "a"`},
		"everything at once": {Options{TLS: true, ClientAuth: true, SASL: mechanisms, Users: map[string]string{"a": "b"}}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := test.options.withDefaults().validate()
			switch {
			case test.problem == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.problem != "" && (err == nil || !strings.Contains(err.Error(), test.problem)):
				t.Errorf("got %v, want an error with %q", err, test.problem)
			}
		})
	}
}

func TestProperties(t *testing.T) {
	cluster := func(o Options) *Cluster {
		c := &Cluster{opts: o.withDefaults(), dir: "/tmp/c"}
		for i := range c.opts.Brokers {
			c.brokers = append(c.brokers, &broker{id: i, dir: "/tmp/c/b", ports: ports{100 + i, 200 + i, 300 + i}})
		}
		return c
	}
	secure := Options{
		TLS: true, SASL: []string{"PLAIN", "SCRAM-SHA-256"}, Users: map[string]string{"bob": "2", "alice": "1"},
		Settings: map[string]string{"num.io.threads": "9"},
	}
	tests := map[string]struct {
		options   Options
		key, want string
	}{
		"voters":           {Options{}, "controller.quorum.voters", "0@127.0.0.1:300,1@127.0.0.1:301,2@127.0.0.1:302"},
		"in sync":          {Options{}, "min.insync.replicas", "2"},
		"in sync, alone":   {Options{Brokers: 1}, "min.insync.replicas", "1"},
		"replicas, of two": {Options{Brokers: 2}, "default.replication.factor", "2"},
		"plain":            {Options{}, "listener.security.protocol.map", "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"},
		"secure":           {secure, "listener.security.protocol.map", "CLIENT:SASL_SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"},
		"advertised":       {secure, "advertised.listeners", "CLIENT://localhost:100,INTERNAL://127.0.0.1:200"},
		"client auth":      {secure, "listener.name.client.ssl.client.auth", "none"},
		"setting":          {secure, "num.io.threads", "9"},
		"users": {
			secure, "listener.name.client.plain.sasl.jaas.config",
			`org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="1" user_bob="2";`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := cluster(test.options)
			if got := c.properties(c.brokers[0])[test.key]; got != test.want {
				t.Errorf("%s = %q, want %q", test.key, got, test.want)
			}
		})
	}
	if got, want := strings.Join(secure.scramArguments(), " "),
		"--add-scram SCRAM-SHA-256=[name=alice,password=1] --add-scram SCRAM-SHA-256=[name=bob,password=2]"; got != want {
		t.Errorf("SCRAM arguments: %q, want %q", got, want)
	}
}

func TestCertificates(t *testing.T) {
	c := must.Get(writeCertificates(t.TempDir()))(t)
	broker := must.Get(tls.LoadX509KeyPair(c.brokerStore, c.brokerStore))(t)
	if _, err := tls.LoadX509KeyPair(c.clientCert, c.clientKey); err != nil {
		t.Error(err)
	}
	for name, test := range map[string]struct {
		ca, host string
		valid    bool
	}{
		"as meant":     {c.ca, "localhost", true},
		"by address":   {c.ca, "127.0.0.1", false},
		"another CA":   {c.otherCA, "localhost", false},
		"another name": {c.ca, "kafka.example.org", false},
	} {
		pool := x509.NewCertPool()
		pem, err := os.ReadFile(test.ca)
		must.Do(t, err)
		pool.AppendCertsFromPEM(pem)
		_, err = broker.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: test.host})
		if (err == nil) != test.valid {
			t.Errorf("%s: valid is %v (%v), want %v", name, err == nil, err, test.valid)
		}
	}
}

func TestFreePorts(t *testing.T) {
	found := must.Get(freePorts(3))(t)
	seen := map[int]bool{}
	for _, p := range found {
		for _, port := range []int{p.client, p.internal, p.controller} {
			if port < lowestPort || port >= highestPort || seen[port] {
				t.Errorf("port %d is out of range or there twice", port)
			}
			seen[port] = true
		}
	}
}

func TestFindJava(t *testing.T) {
	fake := func(t *testing.T, script string) {
		home := t.TempDir()
		must.Do(t, os.Mkdir(home+"/bin", 0o755))
		must.Do(t, os.WriteFile(home+"/bin/java", []byte("#!/bin/sh\n"+script+"\n"), 0o755))
		t.Setenv("JAVA_HOME", home)
	}
	for name, test := range map[string]struct{ script, problem string }{
		"17":      {`echo 'openjdk version "17.0.15" 2025-04-15' >&2`, ""},
		"21":      {`echo 'java version "21" 2023-09-19 LTS' >&2`, ""},
		"8":       {`echo 'java version "1.8.0_372"' >&2`, "is version 8"},
		"11":      {`echo 'openjdk version "11.0.2"' >&2`, "is version 11"},
		"strange": {`echo hello`, `says "hello"`},
		"broken":  {`echo no >&2; exit 3`, "exit status 3"},
	} {
		t.Run(name, func(t *testing.T) {
			fake(t, test.script)
			_, err := findJava(t.Context())
			switch {
			case test.problem == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.problem != "" && (err == nil || !strings.Contains(err.Error(), test.problem)):
				t.Errorf("got %v, want an error with %q", err, test.problem)
			}
		})
	}
	t.Run("missing", func(t *testing.T) {
		t.Setenv("JAVA_HOME", t.TempDir())
		if _, err := findJava(t.Context()); err == nil || !strings.Contains(err.Error(), "openjdk-17-jre-headless") {
			t.Errorf("got %v, want advice", err)
		}
	})
}
