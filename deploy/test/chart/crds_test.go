package chart

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// These types are the part of Strimzi's (kafka.strimzi.io/v1, Strimzi 0.49) and KEDA's (keda.sh/v1alpha1) resources
// that the chart uses. Strimzi and KEDA require every field without omitempty.

type custom struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

type strimziKind struct {
	Type string `json:"type"`
}

type strimziKafka struct {
	custom `json:",inline"`
	Spec   struct {
		Kafka struct {
			Version   string `json:"version,omitempty"`
			Listeners []struct {
				Name           string       `json:"name"`
				Port           int          `json:"port"`
				Type           string       `json:"type"`
				TLS            bool         `json:"tls"`
				Authentication *strimziKind `json:"authentication,omitempty"`
			} `json:"listeners"`
			Authorization *strimziKind   `json:"authorization,omitempty"`
			Config        map[string]any `json:"config,omitempty"`
		} `json:"kafka"`
		EntityOperator *struct {
			TopicOperator *struct{} `json:"topicOperator,omitempty"`
			UserOperator  *struct{} `json:"userOperator,omitempty"`
		} `json:"entityOperator,omitempty"`
	} `json:"spec"`
}

type strimziNodePool struct {
	custom `json:",inline"`
	Spec   struct {
		Replicas int      `json:"replicas"`
		Roles    []string `json:"roles"`
		Storage  struct {
			Type    string `json:"type"`
			Volumes []struct {
				ID            int    `json:"id"`
				Type          string `json:"type"`
				Size          string `json:"size,omitempty"`
				Class         string `json:"class,omitempty"`
				KRaftMetadata string `json:"kraftMetadata,omitempty"`
				DeleteClaim   bool   `json:"deleteClaim,omitempty"`
			} `json:"volumes,omitempty"`
		} `json:"storage"`
		Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	} `json:"spec"`
}

type strimziTopic struct {
	custom `json:",inline"`
	Spec   struct {
		TopicName  string         `json:"topicName,omitempty"`
		Partitions int            `json:"partitions,omitempty"`
		Replicas   int            `json:"replicas,omitempty"`
		Config     map[string]any `json:"config,omitempty"`
	} `json:"spec"`
}

type strimziUser struct {
	custom `json:",inline"`
	Spec   struct {
		Authentication *strimziKind `json:"authentication,omitempty"`
		Authorization  *struct {
			Type string `json:"type"`
			ACLs []struct {
				Resource struct {
					Type        string `json:"type"`
					Name        string `json:"name,omitempty"`
					PatternType string `json:"patternType,omitempty"`
				} `json:"resource"`
				Operations []string `json:"operations"`
			} `json:"acls"`
		} `json:"authorization,omitempty"`
	} `json:"spec"`
}

type kedaScaledObject struct {
	custom `json:",inline"`
	Spec   struct {
		ScaleTargetRef struct {
			Name string `json:"name"`
		} `json:"scaleTargetRef"`
		MinReplicaCount *int32 `json:"minReplicaCount,omitempty"`
		MaxReplicaCount *int32 `json:"maxReplicaCount,omitempty"`
		CooldownPeriod  *int32 `json:"cooldownPeriod,omitempty"`
		Advanced        *struct {
			HorizontalPodAutoscalerConfig *struct {
				Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior,omitempty"`
			} `json:"horizontalPodAutoscalerConfig,omitempty"`
		} `json:"advanced,omitempty"`
		Triggers []struct {
			Type              string            `json:"type"`
			Metadata          map[string]string `json:"metadata"`
			AuthenticationRef *struct {
				Name string `json:"name"`
			} `json:"authenticationRef,omitempty"`
		} `json:"triggers"`
	} `json:"spec"`
}

type kedaTargetRef struct {
	Parameter string `json:"parameter"`
	Name      string `json:"name"`
	Key       string `json:"key"`
}

type kedaTriggerAuthentication struct {
	custom `json:",inline"`
	Spec   struct {
		SecretTargetRef    []kedaTargetRef `json:"secretTargetRef,omitempty"`
		ConfigMapTargetRef []kedaTargetRef `json:"configMapTargetRef,omitempty"`
	} `json:"spec"`
}
