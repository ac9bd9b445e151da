package kafka

import (
	"strings"
	"testing"
)

func TestConfigValidate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		want   string // empty: valid
	}{
		"defaults":               {func(*Config) {}, ""},
		"one lane":               {func(c *Config) { c.Lanes = 1 }, ""},
		"no lanes":               {func(c *Config) { c.Lanes = 0 }, "LANES=0: want 1..10000"},
		"most lanes":             {func(c *Config) { c.Lanes = 10_000 }, ""},
		"too many lanes":         {func(c *Config) { c.Lanes = 10_001 }, "LANES=10001"},
		"broker without port":    {func(c *Config) { c.Brokers = []string{"kafka"} }, "KAFKA_BROKERS=kafka: want host:port"},
		"broker with port 0":     {func(c *Config) { c.Brokers = []string{"kafka:0"} }, "KAFKA_BROKERS=kafka:0"},
		"broker without host":    {func(c *Config) { c.Brokers = []string{":9092"} }, "KAFKA_BROKERS=:9092"},
		"namespace":              {func(c *Config) { c.Namespace = "a b" }, `NAMESPACE="a b"`},
		"long namespace":         {func(c *Config) { c.Namespace = strings.Repeat("x", 101) }, "at most 100"},
		"replication":            {func(c *Config) { c.Replication = 0 }, "KAFKA_REPLICATION=0"},
		"more in sync than are":  {func(c *Config) { c.Replication, c.MinInsync = 2, 3 }, "KAFKA_MIN_INSYNC=3: want at most KAFKA_REPLICATION=2"},
		"as many in sync as are": {func(c *Config) { c.Replication, c.MinInsync = 3, 3 }, ""},
		"no patience":            {func(c *Config) { c.RequestTimeout = 0 }, "STREAM_REQUEST_TIMEOUT=0s: want 100ms..5m0s"},
		"compression":            {func(c *Config) { c.Compression = "rar" }, "STREAM_COMPRESSION=rar: want none, gzip, snappy, lz4 or zstd"},
		"CA without TLS":         {func(c *Config) { c.TLSCA = "ca.pem" }, "KAFKA_TLS_CA=ca.pem: has no effect without KAFKA_TLS=true"},
		"cert without key":       {func(c *Config) { c.TLS, c.TLSCert = true, "c.pem" }, "set both or none"},
		"mechanism":              {func(c *Config) { c.SASL = "GSSAPI" }, "KAFKA_SASL=GSSAPI: want PLAIN"},
		"no user":                {func(c *Config) { c.SASL, c.SASLPassword = "PLAIN", "x" }, "KAFKA_SASL_USER: is empty"},
		"no password":            {func(c *Config) { c.SASL, c.SASLUser = "PLAIN", "x" }, "KAFKA_SASL_PASSWORD: is empty"},
		"user without mechanism": {func(c *Config) { c.SASLUser = "x" }, "have no effect without KAFKA_SASL"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := DefaultConfig()
			c.change(&cfg)
			err := cfg.Validate()
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}
