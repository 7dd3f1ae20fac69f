{{/* What values change in the objects of the base, in place. Each gets a dict: object, root. */}}

{{- define "mirror.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag }}{{ end }}
{{- end -}}
{{- end -}}

{{- define "mirror.configuration" -}}
{{- $image := printf "%s:*" .Values.image.repository }}
{{- if .Values.image.digest }}{{ $image = include "mirror.image" . }}{{ end }}
{{- $accepted := .Files.Get "base/accepted.yaml" | replace "registry.example.com/reconciler:*" $image | fromYaml }}
{{- $_ := set $accepted "environments" (list .Values.environment) }}
host.yaml: |
  {{- mergeOverwrite $accepted .Values.accepted | toYaml | nindent 2 }}
clusters.yaml: |
  {{- .Values.clusters | default (.Files.Get "base/clusters.yaml" | fromYaml).clusters | dict "clusters" | toYaml | nindent 2 }}
{{- range $name := list "executor.yaml" "driver-pod.yaml" }}
{{- $pod := $.Files.Get (printf "base/%s" $name) | fromYaml }}
{{- $container := first $pod.spec.containers }}
{{- $_ := set $container "envFrom" (list (dict "secretRef" (dict "name" $.Values.secret))) }}
{{- $where := ternary $.Values.executors $.Values.drivers (eq $name "executor.yaml") }}
{{- with $where.nodeSelector }}{{ $_ := set $pod.spec "nodeSelector" . }}{{ end }}
{{- with $where.tolerations }}{{ $_ := set $pod.spec "tolerations" . }}{{ end }}
{{ $name }}: |
{{- toYaml $pod | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "mirror.StatefulSet" -}}
{{- $values := .root.Values }}
{{- $_ := set .object.spec "replicas" $values.replicas }}
{{- $template := .object.spec.template }}
{{- $annotations := dict "checksum/configuration" (include "mirror.configuration" .root | sha256sum) }}
{{- $_ := set $template.metadata "annotations" (merge $annotations $values.podAnnotations) }}
{{- $folder := printf "environments/%s" $values.environment }}
{{- $pod := $template.spec | toYaml | replace "environments/prod" $folder | fromYaml }}
{{- $_ := set $template "spec" $pod }}
{{- with $values.imagePullSecrets }}{{ $_ := set $pod "imagePullSecrets" . }}{{ end }}
{{- with $values.nodeSelector }}{{ $_ := set $pod "nodeSelector" . }}{{ end }}
{{- with $values.tolerations }}{{ $_ := set $pod "tolerations" . }}{{ end }}
{{- $container := first $pod.containers }}
{{- $_ := set $container "image" (include "mirror.image" .root) }}
{{- $_ := set $container "imagePullPolicy" $values.image.pullPolicy }}
{{- $_ := set $container "envFrom" (list (dict "secretRef" (dict "name" $values.secret))) }}
{{- $_ := set $container "resources" (mergeOverwrite $container.resources $values.resources) }}
{{- if $values.serviceMonitor.enabled }}
{{- $port := dict "name" "metrics" "containerPort" $values.serviceMonitor.port }}
{{- $_ := set $container "ports" (append $container.ports $port) }}
{{- end }}
{{- end -}}

{{- define "mirror.Service" -}}
{{- with .root.Values.serviceMonitor }}
{{- if .enabled }}
{{- $_ := set $.object.spec "ports" (append $.object.spec.ports (dict "name" "metrics" "port" .port)) }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "mirror.NetworkPolicy" -}}
{{- with .root.Values.serviceMonitor }}
{{- if .enabled }}
{{- $from := .from | default (list (dict "namespaceSelector" dict)) }}
{{- $rule := dict "from" $from "ports" (list (dict "port" .port)) }}
{{- $_ := set $.object.spec "ingress" (append $.object.spec.ingress $rule) }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "mirror.PodDisruptionBudget" -}}
{{- $_ := set .object.spec "maxUnavailable" .root.Values.podDisruptionBudget.maxUnavailable }}
{{- end -}}

{{- define "mirror.RoleBinding" -}}
{{- range .object.subjects }}{{ $_ := set . "namespace" $.root.Release.Namespace }}{{ end }}
{{- end -}}

{{- define "mirror.Role" -}}{{- end -}}

{{- define "mirror.ServiceAccount" -}}
{{- with .root.Values.imagePullSecrets }}{{ $_ := set $.object "imagePullSecrets" . }}{{ end }}
{{- end -}}

{{- define "mirror.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}
