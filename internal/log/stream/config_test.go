package stream

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caarlos0/env/v11"

	"github.com/pairstream/pairstream/internal/testing/must"
)

func TestConfigFromTheEnvironment(t *testing.T) {
	var empty Config
	must.Do(t, env.ParseWithOptions(&empty, env.Options{Environment: map[string]string{}}))
	if want := DefaultConfig(); !reflect.DeepEqual(empty, want) {
		t.Errorf("an empty environment gives %+v\nDefaultConfig gives %+v", empty, want)
	}
	must.Check(t, empty.Validate())
	var cfg Config
	must.Do(t, env.ParseWithOptions(&cfg, env.Options{Environment: map[string]string{
		"KAFKA_BROKERS": "a:1,b:2", "KAFKA_SASL": "PLAIN", "KAFKA_SASL_USER": "u", "KAFKA_SASL_PASSWORD": "p", "KAFKA_TLS": "true",
		"LANES": "8", "STREAM_SESSION_TIMEOUT": "7s", "NAMESPACE": "exp2",
	}}))
	must.Check(t, cfg.Validate())
	if !slices.Equal(cfg.Brokers, []string{"a:1", "b:2"}) || cfg.SASLPassword != "p" || !cfg.TLS || cfg.Lanes != 8 || cfg.SessionTimeout != 7*time.Second {
		t.Errorf("got %+v", cfg)
	}
	if got := cfg.GroupID("encoder"); got != "exp2.pairstream-encoder" {
		t.Errorf("group is %q", got)
	}
}

func TestConfigValidate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		want   string // empty: valid
	}{
		"defaults":              {func(*Config) {}, ""},
		"share of traces":       {func(c *Config) { c.TraceRatio = 1.5 }, "OTEL_TRACES_SAMPLER_ARG=1.5: want a share from 0 to 1"},
		"traces over HTTP":      {func(c *Config) { c.TraceEndpoint = "http://jaeger:4318" }, ""},
		"traces over TLS":       {func(c *Config) { c.TraceEndpoint = "https://collector/otlp" }, ""},
		"traces without scheme": {func(c *Config) { c.TraceEndpoint = "jaeger:4318" }, `OTEL_EXPORTER_OTLP_ENDPOINT="jaeger:4318": want http://host:port or https://host:port`},
		"traces to an address":  {func(c *Config) { c.TraceEndpoint = "127.0.0.1:4318" }, `OTEL_EXPORTER_OTLP_ENDPOINT="127.0.0.1:4318"`},
		"traces over gRPC":      {func(c *Config) { c.TraceEndpoint = "grpc://jaeger:4317" }, `OTEL_EXPORTER_OTLP_ENDPOINT="grpc://jaeger:4317"`},
		"traces to no host":     {func(c *Config) { c.TraceEndpoint = "http://" }, `OTEL_EXPORTER_OTLP_ENDPOINT="http://"`},
		"little memory":         {func(c *Config) { c.MaxBytesInFlight = 1<<20 - 1 }, "STREAM_MAX_BYTES_IN_FLIGHT=1048575: want 1048576.."},
		"least memory":          {func(c *Config) { c.MaxBytesInFlight = 1 << 20 }, ""},
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
	t.Run("all problems at once", func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.Lanes, cfg.TraceRatio, cfg.Compression = 0, -1, "rar"
		if err := cfg.Validate(); err == nil || strings.Count(err.Error(), "\n") != 2 {
			t.Errorf("got %v, want three lines", err)
		}
	})
}

func TestConfigDescribesEverySetting(t *testing.T) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		if !f.Anonymous && (f.Tag.Get("env") == "") != (f.Tag.Get("desc") == "") {
			t.Errorf("%s has only one of the tags env and desc", f.Name)
		}
	}
}
