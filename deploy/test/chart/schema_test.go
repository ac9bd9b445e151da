package chart

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// types lists the kinds that the chart may render. The Go types are the API's own. Strimzi and KEDA have none that are
// light to import; theirs are in crds_test.go.
var types = map[string]reflect.Type{
	"configmap-v1":                        reflect.TypeFor[corev1.ConfigMap](),
	"pod-v1":                              reflect.TypeFor[corev1.Pod](),
	"service-v1":                          reflect.TypeFor[corev1.Service](),
	"serviceaccount-v1":                   reflect.TypeFor[corev1.ServiceAccount](),
	"deployment-apps-v1":                  reflect.TypeFor[appsv1.Deployment](),
	"statefulset-apps-v1":                 reflect.TypeFor[appsv1.StatefulSet](),
	"job-batch-v1":                        reflect.TypeFor[batchv1.Job](),
	"networkpolicy-networking-v1":         reflect.TypeFor[networkingv1.NetworkPolicy](),
	"ingress-networking-v1":               reflect.TypeFor[networkingv1.Ingress](),
	"poddisruptionbudget-policy-v1":       reflect.TypeFor[policyv1.PodDisruptionBudget](),
	"servicemonitor-monitoring-v1":        reflect.TypeFor[monitoringv1.ServiceMonitor](),
	"prometheusrule-monitoring-v1":        reflect.TypeFor[monitoringv1.PrometheusRule](),
	"kafka-kafka-v1":                      reflect.TypeFor[strimziKafka](),
	"kafkanodepool-kafka-v1":              reflect.TypeFor[strimziNodePool](),
	"kafkatopic-kafka-v1":                 reflect.TypeFor[strimziTopic](),
	"kafkauser-kafka-v1":                  reflect.TypeFor[strimziUser](),
	"scaledobject-keda-v1alpha1":          reflect.TypeFor[kedaScaledObject](),
	"triggerauthentication-keda-v1alpha1": reflect.TypeFor[kedaTriggerAuthentication](),
}

type schema map[string]any

// special lists types that encode themselves.
var special = map[reflect.Type]schema{
	reflect.TypeFor[metav1.Time]():        {"type": []string{"string", "null"}},
	reflect.TypeFor[metav1.MicroTime]():   {"type": []string{"string", "null"}},
	reflect.TypeFor[metav1.Duration]():    {"type": "string"},
	reflect.TypeFor[metav1.FieldsV1]():    {"type": "object"},
	reflect.TypeFor[resource.Quantity]():  {"type": []string{"string", "number"}},
	reflect.TypeFor[intstr.IntOrString](): {"type": []string{"string", "integer"}},
	reflect.TypeFor[[]byte]():             {"type": "string"},
	reflect.TypeFor[map[string]any]():     {"type": "object"},
	reflect.TypeFor[any]():                {},
}

// generator makes a strict JSON schema of a Go type, which refuses a property that the type does not have. A field
// without omitempty is required; the API's types mark so what must be there.
type generator struct {
	definitions map[string]schema
	names       map[reflect.Type]string
}

func newGenerator() *generator {
	return &generator{definitions: map[string]schema{}, names: map[reflect.Type]string{}}
}

func (g *generator) of(t reflect.Type) schema {
	if s, ok := special[t]; ok {
		return s
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.of(t.Elem())
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return schema{"type": "integer"}
	case reflect.Float32, reflect.Float64:
		return schema{"type": "number"}
	case reflect.Slice:
		return schema{"type": "array", "items": g.of(t.Elem())}
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": g.of(t.Elem())}
	case reflect.Struct:
		return g.object(t)
	}
	panic("no schema for " + t.String())
}

func (g *generator) object(t reflect.Type) schema {
	name, ok := g.names[t]
	if !ok {
		name = strconv.Itoa(len(g.names))
		g.names[t] = name
		s := schema{"type": "object", "additionalProperties": false}
		g.definitions[name] = s // before the fields: types may contain themselves
		properties, required := map[string]schema{}, []string{}
		g.fields(t, properties, &required)
		s["properties"] = properties
		if len(required) > 0 {
			s["required"] = required
		}
	}
	return schema{"$ref": "#/definitions/" + name}
}

func (g *generator) fields(t reflect.Type, properties map[string]schema, required *[]string) {
	for f := range t.Fields() {
		tag, ok := f.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case f.Anonymous && name == "":
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			g.fields(embedded, properties, required)
			continue
		case !ok || name == "-" || !f.IsExported():
			continue
		}
		properties[name] = g.of(f.Type)
		if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			*required = append(*required, name)
		}
	}
}

// writeSchemas writes a schema for every kind where kubeconform looks for it.
func writeSchemas(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, of := range types {
		g := newGenerator()
		root := g.of(of)
		root["definitions"] = g.definitions
		root["$schema"] = "http://json-schema.org/draft-07/schema#"
		content, err := json.Marshal(root)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".json"), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir + "/{{.ResourceKind}}{{.KindSuffix}}.json"
}

func kubeconform(t *testing.T, location string, manifests []byte) (string, error) {
	t.Helper()
	program, err := exec.LookPath("kubeconform")
	if err != nil {
		t.Fatalf("kubeconform is missing: run `make test-helm`, which installs it: %v", err)
	}
	cmd := exec.Command(program, "-strict", "-summary", "-schema-location", location)
	cmd.Stdin = bytes.NewReader(manifests)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestObjectsFollowTheirSchemas(t *testing.T) {
	location := writeSchemas(t)
	for name, values := range cases {
		t.Run(name, func(t *testing.T) {
			if out, err := kubeconform(t, location, template(t, values)); err != nil {
				t.Errorf("kubeconform: %v\n%s", err, out)
			}
		})
	}
}

// The schemas refuse what an API server would refuse.
func TestSchemasRefuse(t *testing.T) {
	location := writeSchemas(t)
	good := `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: 80}]}}`
	if out, err := kubeconform(t, location, []byte(good)); err != nil {
		t.Fatalf("a good Service is refused: %s", out)
	}
	for name, bad := range map[string]string{
		"unknown property": `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {port: 80}}`,
		"wrong type":       `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: "80"}]}}`,
		"missing property": `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 1}}`,
		"unknown kind":     `{apiVersion: v1, kind: Servise, metadata: {name: a}}`,
		"retired version":  `{apiVersion: policy/v1beta1, kind: PodDisruptionBudget, metadata: {name: a}}`,
		"twice":            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {A: b, A: c}",
		"not text":         `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {A: 1}}`,
	} {
		if out, err := kubeconform(t, location, []byte(bad)); err == nil {
			t.Errorf("%s is accepted: %s", name, out)
		}
	}
}
