package chart

import (
	"maps"
	"strconv"
	"testing"

	"github.com/pairstream/pairstream/schemas"
)

// selects reports whether labels have everything that selector asks for.
func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return len(selector) > 0
}

func selector(o object) map[string]string {
	switch o.kind() {
	case "Deployment", "StatefulSet", "PodDisruptionBudget", "ServiceMonitor":
		return o.labels("spec", "selector", "matchLabels")
	case "Service":
		return o.labels("spec", "selector")
	case "NetworkPolicy":
		return o.labels("spec", "podSelector", "matchLabels")
	}
	return nil
}

// Every selector finds what it is for, and a workload's selector finds its own Pods alone.
func TestSelectorsMatch(t *testing.T) {
	eachCase(t, func(t *testing.T, objects []object) {
		all := pods(objects)
		for _, o := range objects {
			s := selector(o)
			if s == nil {
				continue
			}
			found := 0
			for _, p := range all {
				if o.kind() != "ServiceMonitor" && selects(s, p.labels) {
					found++
				}
			}
			for _, other := range objects {
				if o.kind() == "ServiceMonitor" && other.kind() == "Service" && selects(s, other.labels("metadata", "labels")) {
					found++
				}
			}
			switch o.kind() {
			case "Deployment", "StatefulSet", "PodDisruptionBudget", "ServiceMonitor":
				if found != 1 {
					t.Errorf("%s selects %d, want 1", o.id(), found)
				}
			default:
				if found == 0 {
					t.Errorf("%s selects nothing", o.id())
				}
			}
		}
	})
}

// Every ConfigMap and service account that a Pod names exists, and so does a StatefulSet's Service.
func TestReferencesExist(t *testing.T) {
	eachCase(t, func(t *testing.T, objects []object) {
		for _, p := range pods(objects) {
			for _, c := range p.containers() {
				for _, e := range c.list("envFrom") {
					if name := object(e.(map[string]any)).text("configMapRef", "name"); name != "" && find(objects, "ConfigMap", name) == nil {
						t.Errorf("%s: ConfigMap %s does not exist", p.of.id(), name)
					}
				}
			}
			if name := p.spec.text("serviceAccountName"); p.serves() && find(objects, "ServiceAccount", name) == nil {
				t.Errorf("%s: ServiceAccount %q does not exist", p.of.id(), name)
			}
			if name := p.of.text("spec", "serviceName"); p.of.kind() == "StatefulSet" && find(objects, "Service", name) == nil {
				t.Errorf("%s: Service %q does not exist", p.of.id(), name)
			}
		}
	})
}

func lanes(t *testing.T, config object) int {
	t.Helper()
	n, err := strconv.Atoi(config.text("data", "LANES"))
	if err != nil {
		t.Fatalf("%s: LANES: %v", config.id(), err)
	}
	return n
}

// Topics have as many partitions as the services have lanes, whoever makes them.
func TestTopicsHaveTheServicesLanes(t *testing.T) {
	eachCase(t, func(t *testing.T, objects []object) {
		services := find(objects, "ConfigMap", fullname)
		want := lanes(t, services)
		job, strimzi := find(objects, "ConfigMap", fullname+"-topics"), find(objects, "Kafka", fullname+"-kafka")
		if (job == nil) == (strimzi == nil) {
			t.Fatal("topics are made by the Job and by Strimzi, or by neither")
		}
		if job != nil {
			if !maps.Equal(job.sub("data"), services.sub("data")) {
				t.Error("the Job that makes topics has other settings than the services")
			}
			return
		}
		made := map[string]object{}
		for _, o := range objects {
			if o.kind() == "KafkaTopic" {
				made[o.text("spec", "topicName")] = o
			}
		}
		for _, info := range schemas.Catalogue() {
			partitions := 1
			if info.Lane {
				partitions = want
			}
			name := info.Topic.Name(services.text("data", "NAMESPACE"))
			if got := made[name].at("spec", "partitions"); got != float64(partitions) {
				t.Errorf("topic %s has %v partitions, want %d", name, got, partitions)
			}
			delete(made, name)
		}
		for name := range made {
			t.Errorf("topic %s is not in the catalogue", name)
		}
	})
}

// No stage but the ranks of a model has Pods beyond the lanes.
func TestReplicasNeverAboveLanes(t *testing.T) {
	eachCase(t, func(t *testing.T, objects []object) {
		most := float64(lanes(t, find(objects, "ConfigMap", fullname)))
		for _, o := range objects {
			for _, field := range []string{"replicas", "maxReplicaCount", "minReplicaCount"} {
				stage := o.kind() == "Deployment" || o.kind() == "StatefulSet" || o.kind() == "ScaledObject"
				ranks := find(objects, "ConfigMap", o.name()) != nil && find(objects, "ConfigMap", o.name()).text("data", "WORLD_SIZE") != ""
				if n, ok := o.at("spec", field).(float64); stage && !ranks && ok && n > most {
					t.Errorf("%s: %s is %v with %v lanes", o.id(), field, n, most)
				}
			}
		}
	})
}

// KEDA and a fixed number of replicas would fight.
func TestScaledObjects(t *testing.T) {
	objects := render(t, cases["everything"])
	scaled := 0
	for _, o := range objects {
		if o.kind() != "ScaledObject" {
			continue
		}
		scaled++
		target := find(objects, "Deployment", o.text("spec", "scaleTargetRef", "name"))
		if target == nil {
			t.Errorf("%s scales nothing", o.id())
			continue
		}
		if target.at("spec", "replicas") != nil {
			t.Errorf("%s: replicas are fixed", target.id())
		}
		trigger := object(o.list("spec", "triggers")[0].(map[string]any))
		stage := target.text("metadata", "labels", "app.kubernetes.io/component")
		if got := trigger.text("metadata", "consumerGroup"); got != "pairstream-"+stage {
			t.Errorf("%s looks at group %q", o.id(), got)
		}
		want := map[string]string{"encoder": "1000", "grouper": "1", "discriminator": "1000"}[stage]
		if got := trigger.text("metadata", "lagThreshold"); got != want {
			t.Errorf("%s: one more Pod for a lag of %q, want %q", o.id(), got, want)
		}
		if find(objects, "TriggerAuthentication", trigger.text("authenticationRef", "name")) == nil {
			t.Errorf("%s: no TriggerAuthentication", o.id())
		}
	}
	if scaled != 3 {
		t.Errorf("%d stages are scaled, want 3", scaled)
	}
}

func TestConnectionSettings(t *testing.T) {
	for name, want := range map[string]map[string]string{
		"default": {"KAFKA_BROKERS": "kafka:9092", "KAFKA_TLS": "", "KAFKA_SASL": "", "NAMESPACE": "", "BUCKET_ROOTS": ""},
		"tls": {
			"KAFKA_BROKERS": "b0.example:9094,b1.example:9094", "KAFKA_TLS": "true", "KAFKA_TLS_CA": "/etc/kafka-ca/ca.crt",
			"KAFKA_TLS_CERT": "/etc/kafka-client/tls.crt", "KAFKA_TLS_KEY": "/etc/kafka-client/tls.key",
			"KAFKA_TLS_SERVER_NAME": "kafka.example", "KAFKA_SASL": "SCRAM-SHA-256", "KAFKA_SASL_USER": "alice", "NAMESPACE": "exp2",
			"BUCKET_ROOTS": "s3://shards/crawl?region=eu-west-1,s3://own?endpoint=http://minio:9000&s3ForcePathStyle=true,file:///data,file:///spool",
		},
		"strimzi": {
			"KAFKA_BROKERS": "rel-pairstream-kafka-kafka-bootstrap:9093", "KAFKA_TLS": "true", "KAFKA_SASL": "SCRAM-SHA-512",
			"KAFKA_SASL_USER": "rel-pairstream", "LANES": "8", "NAMESPACE": "prod",
		},
	} {
		config := find(render(t, cases[name]), "ConfigMap", fullname)
		for key, value := range want {
			if got := config.text("data", key); got != value {
				t.Errorf("%s: %s is %q, want %q", name, key, got, value)
			}
		}
	}
}
