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

{{/* Not empty where several Pods of the built-in trainer train one model. */}}
{{- define "pairstream.ranks" -}}
{{- if and (eq .Values.trainer.kind "go") (gt (int .Values.trainer.replicas) 1) -}}yes{{- end -}}
{{- end -}}

{{/* The image of a stage: dict "root" $ "gpu" bool "torch" bool. */}}
{{- define "pairstream.image" -}}
{{- $v := .root.Values -}}
{{- $image := $v.image -}}
{{- $tag := default .root.Chart.AppVersion $image.tag -}}
{{- if .torch -}}
{{- $image = $v.torchImage -}}
{{- $tag = default .root.Chart.AppVersion $image.tag -}}
{{- else if and .gpu $v.gpuImage.repository -}}
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

{{/* Further buckets that the trainer and the indexer reach, as a YAML list: of copies, segments and held-out pairs, unless they lie in a root. */}}
{{- define "pairstream.furtherPlaces" -}}
{{- $v := .Values -}}
{{- $set := merge dict $v.trainer.settings $v.settings -}}
{{- $copies := toString (get (merge dict $v.indexer.settings $v.settings) "REPACK_ROOT") -}}
{{- $segments := toString (get (merge dict $v.indexer.settings $v.settings) "SEGMENTS_ROOT") -}}
{{- $places := list -}}
{{- range concat (splitList "," (toString (get $set "EVAL_DATA"))) (list (toString (get $set "CHECKPOINT_UPLOAD")) $copies $segments) -}}
{{- $place := trim . -}}
{{- $inside := false -}}
{{- range $v.bucket.roots -}}
{{- $root := regexReplaceAll "[?].*" . "" | trimSuffix "/" -}}
{{- if and (not (contains "?" $place)) (hasPrefix (printf "%s/" $root) (printf "%s/" $place)) -}}{{- $inside = true -}}{{- end -}}
{{- end -}}
{{- if not $inside -}}{{- $places = append $places $place -}}{{- end -}}
{{- end -}}
{{- $places | toYaml -}}
{{- end -}}

{{/* The ports at which buckets are reached, as a YAML list: of the endpoints that roots and settings name, else 443. */}}
{{- define "pairstream.bucketPorts" -}}
{{- $ports := list -}}
{{- $v := .Values -}}
{{- $all := merge dict $v.encoder.settings $v.indexer.settings $v.discriminator.settings $v.trainer.settings $v.settings -}}
{{- $shared := toString (default (default "" (get $all "AWS_ENDPOINT_URL")) (get $all "AWS_ENDPOINT_URL_S3")) -}}
{{- range concat $v.bucket.roots (include "pairstream.furtherPlaces" . | fromYamlArray) -}}
{{- if regexMatch "^(s3|gs)://" . -}}
{{- $endpoint := regexReplaceAll "^[?&]endpoint=" (regexFind "[?&]endpoint=[^&]+" .) "" -}}
{{- $endpoint = $endpoint | replace "%3A" ":" | replace "%3a" ":" | replace "%2F" "/" | replace "%2f" "/" -}}
{{- if not $endpoint -}}{{- $endpoint = ternary $shared "" (hasPrefix "s3://" .) -}}{{- end -}}
{{- $port := regexFind ":[0-9]+(/|$)" $endpoint | trimSuffix "/" | trimPrefix ":" -}}
{{- $ports = append $ports (int (default (ternary 80 443 (hasPrefix "http://" $endpoint)) $port)) -}}
{{- end -}}
{{- end -}}
{{- if and $ports $v.serviceAccount.annotations -}}{{- $ports = append $ports 443 -}}{{- end -}}
{{- uniq $ports | toYaml -}}
{{- end -}}

{{/* The Secret of a part, as an entry of envFrom: dict "root" $ "part" name. The grouper needs none but its own. */}}
{{- define "pairstream.secret" -}}
{{- $own := (index .root.Values .part).secretName -}}
{{- with $own | default (ternary "" .root.Values.secretName (eq .part "grouper")) }}
- secretRef: {name: {{ . }}}
{{- end }}
{{- end -}}

{{/* Where the Pods of a part run, and what runs before them, of the part's values. */}}
{{- define "pairstream.placement" -}}
{{- range $key := list "nodeSelector" "tolerations" "affinity" "initContainers" }}
{{- with index $ $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- range $key := list "priorityClassName" "runtimeClassName" }}
{{- with index $ $key }}
{{ $key }}: {{ . }}
{{- end }}
{{- end }}
{{- end -}}
