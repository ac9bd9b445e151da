package chart

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	chartDir    = "../../helm/pairstream"
	kubeVersion = "1.31.0"
	release     = "rel"
	fullname    = "rel-pairstream"
)

// cases are the sets of values for every check. The first is the chart as it is.
var cases = map[string]string{
	"default": "",
	"gpu": `
gpuImage: {repository: registry.example/pairstream, tag: v1-cuda}
encoder: {gpus: 1, nodeSelector: {accelerator: h100}, tolerations: [{key: nvidia.com/gpu, operator: Exists}]}
indexer: {livePort: 9100, gpus: 1}
secretName: live-token
discriminator: {gpus: 1}
trainer: {gpus: 8, settings: {LR: 0.0001, MOMENTUM_DECAY: 0.995, LR_TOTAL_STEPS: 1000000}}
console: {enabled: true, ingress: {enabled: true, className: nginx, host: console.example.org, tlsSecret: console-tls}}
`,
	"tls": `
topicNamespace: exp2
kafka:
  brokers: [b0.example:9094, b1.example:9094]
  tls: {enabled: true, caSecret: kafka-ca, clientSecret: kafka-client, serverName: kafka.example}
  sasl: {mechanism: SCRAM-SHA-256, user: alice, secret: kafka-password}
bucket: {roots: ["s3://shards/crawl?region=eu-west-1", "s3://own?endpoint=http://minio:9000&s3ForcePathStyle=true", "file:///data"], volume: {nfs: {server: nas, path: /shards}}}
spool: {volume: {persistentVolumeClaim: {claimName: spool}}}
secretName: bucket-credentials
image: {digest: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", pullSecrets: [registry]}
networkPolicies:
  metricsFrom: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]
  kafkaTo: [{ipBlock: {cidr: 10.0.0.0/8}}]
`,
	"strimzi": `
lanes: 8
topicNamespace: prod
kafka: {brokers: []}
strimzi: {enabled: true, storageClass: fast, retentionHours: 72, topicRetentionHours: {scored: 24, pairs: -1}}
console: {enabled: true, userHeader: X-Forwarded-User}
secretName: tokens
spool: {volume: {persistentVolumeClaim: {claimName: spool}}}
ingest: {enabled: true, maxLag: 1000000}
`,
	"torch": `
lanes: 4
torchImage: {repository: registry.example/pairstream-torch, tag: v1}
trainer: {kind: torch, replicas: 2, gpus: 4, volume: {persistentVolumeClaim: {claimName: checkpoints}}, command: [/examples/clip.py, --checkpoints, /checkpoints]}
`,
	"ranks": `
lanes: 1
secretName: rank-token
trainer: {replicas: 4}
`,
	"copies": `
secretName: bucket-credentials
bucket: {roots: ["s3://shards?region=eu-west-1"]}
trainer:
  settings:
    EVAL_EVERY: 5000
    EVAL_DATA: s3://shards/held-out/,gs://held-out/more/
    CHECKPOINT_KEEP_EVERY: 1000000
    CHECKPOINT_BEST: recall
    CHECKPOINT_UPLOAD: s3://copies/run/?endpoint=https://minio:9443&region=x
`,
	"added": `
spool: {volume: {persistentVolumeClaim: {claimName: spool}}}
secretName: tokens
encoder: &part {podLabels: {team: vision}, priorityClassName: training, runtimeClassName: nvidia, initContainers: [{name: fetch, image: "registry.example/fetch:1", securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}, resources: {limits: {memory: 64Mi}}}], extraVolumes: [{name: weights, emptyDir: {}}], extraVolumeMounts: [{name: weights, mountPath: /weights}]}
indexer: *part
grouper: *part
discriminator: *part
trainer: *part
console:
  <<: *part
  enabled: true
ingest:
  <<: *part
  enabled: true
`,
	"everything": `
lanes: 4
encoder: {replicas: 9}
kafka: {sasl: {mechanism: PLAIN, user: bob, secret: pw}}
keda: {enabled: true, maxReplicas: 30}
monitoring: {serviceMonitor: true, alerts: true, dashboard: true, labels: {release: prometheus}}
serviceAccount: {annotations: {eks.amazonaws.com/role-arn: "arn:aws:iam::1:role/x"}}
`,
}

// object is a rendered manifest.
type object map[string]any

func (o object) kind() string { return o["kind"].(string) }
func (o object) name() string { return o.text("metadata", "name") }
func (o object) id() string   { return o.kind() + "/" + o.name() }

// at walks maps by key. It returns nil where there is nothing.
func (o object) at(path ...string) any {
	var here any = map[string]any(o)
	for _, key := range path {
		m, ok := here.(map[string]any)
		if !ok {
			return nil
		}
		here = m[key]
	}
	return here
}

func (o object) text(path ...string) string {
	s, _ := o.at(path...).(string)
	return s
}

func (o object) list(path ...string) []any {
	l, _ := o.at(path...).([]any)
	return l
}

func (o object) sub(path ...string) object {
	m, _ := o.at(path...).(map[string]any)
	return m
}

func (o object) labels(path ...string) map[string]string {
	labels := map[string]string{}
	for k, v := range o.sub(path...) {
		labels[k], _ = v.(string)
	}
	return labels
}

// helm runs helm and returns what it printed on standard output, and its error with standard error in it.
func helm(t *testing.T, args ...string) ([]byte, string, error) {
	t.Helper()
	program, err := exec.LookPath("helm")
	if err != nil {
		t.Fatalf("helm is missing: run `make test-helm`, which installs it: %v", err)
	}
	var out, problems bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = &out, &problems
	err = cmd.Run()
	return out.Bytes(), problems.String(), err
}

func valuesFile(t *testing.T, values string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(path, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func template(t *testing.T, values string) []byte {
	t.Helper()
	out, problems, err := helm(t, "template", release, chartDir, "--kube-version", kubeVersion, "--values", valuesFile(t, values))
	if err != nil {
		t.Fatalf("helm template: %v\n%s", err, problems)
	}
	return out
}

// render returns the objects of the chart.
func render(t *testing.T, values string) []object {
	t.Helper()
	var objects []object
	for text := range strings.SplitSeq("\n"+string(template(t, values)), "\n---\n") {
		var o object
		if err := yaml.UnmarshalStrict([]byte(text), &o); err != nil {
			t.Fatalf("reading a rendered object: %v\n%s", err, text)
		}
		if len(o) > 0 {
			objects = append(objects, o)
		}
	}
	if len(objects) == 0 {
		t.Fatal("the chart renders nothing")
	}
	return objects
}

func find(objects []object, kind, name string) object {
	for _, o := range objects {
		if o.kind() == kind && o.name() == name {
			return o
		}
	}
	return nil
}

// eachCase runs check on the objects of every case.
func eachCase(t *testing.T, check func(t *testing.T, objects []object)) {
	t.Helper()
	for name, values := range cases {
		t.Run(name, func(t *testing.T) { check(t, render(t, values)) })
	}
}

func TestLint(t *testing.T) {
	for name, values := range cases {
		t.Run(name, func(t *testing.T) {
			out, problems, err := helm(t, "lint", chartDir, "--strict", "--kube-version", kubeVersion, "--values", valuesFile(t, values))
			if err != nil {
				t.Errorf("helm lint: %v\n%s%s", err, out, problems)
			}
		})
	}
}
