{{- define "weir.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "weir.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "weir.labels" -}}
{{ include "weir.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "weir.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* The configuration: what the values say, with what belongs to the chart. */}}
{{- define "weir.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if hasKey $config "admin" }}{{ fail "config.admin is set by the chart: set admin.port" }}{{ end -}}
{{- $_ := set $config "admin" (printf "0.0.0.0:%v" .Values.admin.port) -}}
{{- if .Values.redis.url -}}
{{- $redis := get $config "redis" | default dict -}}
{{- $_ := set $config "redis" (set $redis "url" .Values.redis.url) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end }}
