{{/* Names and labels. */}}

{{- define "pairstream.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "pairstream.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 45 | trimSuffix "-" -}}
{{- else if contains (include "pairstream.name" .) .Release.Name -}}
{{- .Release.Name | trunc 45 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "pairstream.name" .) | trunc 45 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "pairstream.selector" -}}
app.kubernetes.io/name: {{ include "pairstream.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "pairstream.labels" -}}
{{ include "pairstream.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: pairstream
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "pairstream.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "pairstream.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The image of a stage: dict "root" $ "gpu" bool. */}}
{{- define "pairstream.image" -}}
{{- $v := .root.Values -}}
{{- $image := $v.image -}}
{{- $tag := default .root.Chart.AppVersion $image.tag -}}
{{- if and .gpu $v.gpuImage.repository -}}
{{- $image = $v.gpuImage -}}
{{- $tag = default (printf "%s-cuda" .root.Chart.AppVersion) $image.tag -}}
{{- end -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $tag }}
{{- end -}}
{{- end -}}

{{/* The consumer group of a stage: dict "root" $ "stage" name. */}}
{{- define "pairstream.group" -}}
{{- with .root.Values.topicNamespace }}{{ . }}.{{ end }}pairstream-{{ .stage }}
{{- end -}}
