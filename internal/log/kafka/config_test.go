package kafka

import (
	"strings"
	"testing"
	"time"
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
		"short session":          {func(c *Config) { c.SessionTimeout = time.Second - 1 }, "STREAM_SESSION_TIMEOUT=999.999999ms: want 1s..30m0s"},
		"long session":           {func(c *Config) { c.SessionTimeout = 30*time.Minute + 1 }, "STREAM_SESSION_TIMEOUT=30m0.000000001s"},
		"longest session":        {func(c *Config) { c.SessionTimeout = 30 * time.Minute }, ""},
		"retention":              {func(c *Config) { c.Retention = "720h, batches=168h,scored=0s" }, ""},
		"retention of no time":   {func(c *Config) { c.Retention = "" }, ""},
		"retention without unit": {func(c *Config) { c.Retention = "720" }, `KAFKA_RETENTION=720: "720": want a duration`},
		"retention below 0":      {func(c *Config) { c.Retention = "-1h" }, `KAFKA_RETENTION=-1h: "-1h"`},
		"retention of two times": {func(c *Config) { c.Retention = "1h,2h" }, `KAFKA_RETENTION=1h,2h: "2h"`},
		"a topic twice":          {func(c *Config) { c.Retention = "batches=1h,batches=2h" }, `"batches=2h"`},
		"of an unknown topic":    {func(c *Config) { c.Retention = "0s,batch=1h" }, `"batch=1h"`},
		"of a compacted topic":   {func(c *Config) { c.Retention = "0s,control=1h" }, `"control=1h"`},
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

func TestARequestMayTakeAsLongAsASession(t *testing.T) {
	for name, c := range map[string]struct{ session, request, want time.Duration }{
		"defaults":        {DefaultConfig().SessionTimeout, 0, 10 * time.Second},
		"a short session": {time.Second, 0, 10 * time.Second},
		"a long session":  {time.Minute, 0, time.Minute},
		"set by a test":   {time.Minute, time.Second, time.Second},
	} {
		if got := (Config{SessionTimeout: c.session, RequestTimeout: c.request}).PerRequest(); got != c.want {
			t.Errorf("%s: a request may take %s, want %s", name, got, c.want)
		}
	}
}
