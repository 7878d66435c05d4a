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

{{/* What the values say of a configuration: the whole of it, or what objects do not say. */}}
{{- define "weir.given" -}}
{{- if eq .Values.mode "gateway" }}{{ toYaml .Values.gateway.settings }}{{ else }}{{ toYaml .Values.config }}{{ end -}}
{{- end }}

{{/* The configuration: what the values say, with what belongs to the chart. */}}
{{- define "weir.config" -}}
{{- $config := include "weir.given" . | fromYaml -}}
{{- $is_gateway := eq .Values.mode "gateway" -}}
{{- $of := ternary "gateway.settings" "config" $is_gateway -}}
{{- if hasKey $config "admin" }}{{ fail (printf "%s.admin is set by the chart: set admin.port" $of) }}{{ end -}}
{{- $_ := set $config "admin" (printf "0.0.0.0:%v" .Values.admin.port) -}}
{{- if $is_gateway -}}
{{- range tuple "listen" "upstreams" "routes" -}}
{{- if hasKey $config . }}{{ fail (printf "gateway.settings.%s is what Gateways and routes say" .) }}{{ end -}}
{{- end -}}
{{- if ge (int .Values.admin.port) (int .Values.gateway.firstPort) }}{{ fail "admin.port has to be below gateway.firstPort" }}{{ end -}}
{{- end -}}
{{- if .Values.redis.url -}}
{{- if $is_gateway }}{{ fail "redis.url has no effect with mode gateway: no object has limits or caches" }}{{ end -}}
{{- $redis := get $config "redis" | default dict -}}
{{- $_ := set $config "redis" (set $redis "url" .Values.redis.url) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end }}

{{/* Whole seconds of a duration of Weir, rounded up; nothing where it is none or a variable. */}}
{{- define "weir.seconds" -}}
{{- if regexMatch "^[0-9]+(ms|s|m|h|d)$" . -}}
{{- $number := regexFind "^[0-9]+" . | int64 -}}
{{- $unit := regexFind "[a-z]+$" . -}}
{{- if eq $unit "ms" }}{{ div (add $number 999) 1000 }}{{ else }}{{ mul $number (get (dict "s" 1 "m" 60 "h" 3600 "d" 86400) $unit) }}{{ end -}}
{{- end -}}
{{- end }}

{{/* Seconds until the pod is killed: more than a pod that is told to end takes for its requests. */}}
{{- define "weir.grace" -}}
{{- $server := get (include "weir.given" . | fromYaml) "server" | default dict -}}
{{- $drain := include "weir.seconds" (get $server "drain" | default "30s" | toString) -}}
{{- $given := get $server "drain_delay" | default "none" | toString -}}
{{- $delay := eq $given "none" | ternary "0" (include "weir.seconds" $given) -}}
{{- $grace := int64 .Values.terminationGracePeriodSeconds -}}
{{- if and $drain $delay -}}
{{- $least := add .Values.preStopSleep $delay $drain -}}
{{- if eq $grace 0 -}}
{{- add $least 10 -}}
{{- else if le $grace $least -}}
{{- fail (printf "terminationGracePeriodSeconds has to be above %d: preStopSleep, server.drain_delay and server.drain" $least) -}}
{{- else -}}
{{- $grace -}}
{{- end -}}
{{- else if eq $grace 0 -}}
{{- fail "server.drain says no number of seconds: set terminationGracePeriodSeconds" -}}
{{- else -}}
{{- $grace -}}
{{- end -}}
{{- end }}

{{/* Names of objects of the cluster, which several releases share. */}}
{{- define "weir.clusterName" -}}
{{ printf "%s-%s" .Release.Namespace (include "weir.name" .) }}
{{- end }}
