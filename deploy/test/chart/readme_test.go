package chart

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var rewrite = flag.Bool("rewrite", false, "write the chart's README.md anew")

const readmeHead = `# The pairstream chart

Runs pairstream on Kubernetes: a Deployment each for encoder, grouper and discriminator, a StatefulSet each for indexer
and trainer. Kafka is yours (` + "`kafka.brokers`" + `, with TLS and SASL from Secrets), or made by
[Strimzi](https://strimzi.io) (` + "`strimzi.enabled`" + `).

    helm install pairstream deploy/helm/pairstream \
      --set 'kafka.brokers={kafka-0.kafka:9092}' --set 'bucket.roots={s3://my-bucket/shards?region=eu-west-1}'
    helm test pairstream

Topics are made by a Job before anything else is installed or upgraded; it refuses topics with another number of
partitions than ` + "`lanes`" + `. Models are files on the volume ` + "`models.volume`" + `; ` + "`pairstream bootstrap`" + ` trains first ones.
Secrets are never made by the chart: it is told their names.

A setting without a value of its own goes into ` + "`settings`" + ` of its stage. Here the trainer measures its weights on held-out
pairs, keeps checkpoints, and copies them to a bucket. The NetworkPolicy opens the ports of these buckets.

    helm install pairstream deploy/helm/pairstream --set 'kafka.brokers={kafka-0.kafka:9092}' \
      --set 'bucket.roots={s3://my-bucket?region=eu-west-1}' --set secretName=bucket-credentials \
      --set trainer.settings.EVAL_EVERY=5000 --set trainer.settings.EVAL_DATA=s3://my-bucket/held-out/ \
      --set trainer.settings.CHECKPOINT_BEST=recall --set trainer.settings.CHECKPOINT_KEEP_EVERY=10000 \
      --set trainer.settings.CHECKPOINT_UPLOAD=s3://my-bucket/checkpoints/

A place without options takes those of the root that it lies under. So the endpoint and region of a store are written once.

## Values

This table is made from values.yaml by ` + "`make helm-readme`" + `.

| Value | Default | Meaning |
|---|---|---|
`

// described is one value with the description that its comment gives.
type described struct{ path, value, meaning string }

// describe walks values.yaml. A comment that begins with "# --" describes the value below it and all that is in it.
func describe(path string, n *yaml.Node) (found []described, err error) {
	if n.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := strings.TrimPrefix(path+"."+key.Value, ".")
		_, meaning, ok := strings.Cut(key.HeadComment, "# -- ")
		if ok {
			text, err := inline(value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", at, err)
			}
			found = append(found, described{at, text, strings.ReplaceAll(meaning, "\n# ", " ")})
			continue
		}
		if value.Kind != yaml.MappingNode {
			return nil, fmt.Errorf("%s has no description", at)
		}
		below, err := describe(at, value)
		if err != nil {
			return nil, err
		}
		found = append(found, below...)
	}
	return found, nil
}

func inline(n *yaml.Node) (string, error) {
	var value any
	if err := n.Decode(&value); err != nil {
		return "", fmt.Errorf("reading the default: %w", err)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("writing the default: %w", err)
	}
	return string(text), nil
}

func readme(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(chartDir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		t.Fatal(err)
	}
	values, err := describe("", document.Content[0])
	if err != nil {
		t.Fatalf("values.yaml: %v", err)
	}
	var b strings.Builder
	b.WriteString(readmeHead)
	for _, v := range values {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", v.path, strings.ReplaceAll(v.value, "|", `\|`), strings.ReplaceAll(v.meaning, "|", `\|`))
	}
	return b.String()
}

func TestReadmeIsMadeFromValues(t *testing.T) {
	path := filepath.Join(chartDir, "README.md")
	want := readme(t)
	if *rewrite {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("README.md is not what values.yaml says: run `make helm-readme`")
	}
}
