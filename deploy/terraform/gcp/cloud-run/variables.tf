variable "name" {
  description = "Name of the service and prefix of its resources."
  type        = string
  default     = "weir"
  validation {
    condition     = can(regex("^[a-z][-a-z0-9]{4,24}[a-z0-9]$", "${var.name}-run"))
    error_message = "name must have 2 to 22 lower-case letters, digits and hyphens, and begin with a letter."
  }
}

variable "region" {
  description = "Region, such as europe-west3."
  type        = string
}

variable "image" {
  description = "Image of Weir by digest in Artifact Registry, such as europe-west3-docker.pkg.dev/project/images/weir@sha256:..."
  type        = string
  validation {
    condition     = can(regex("^[^@]+@sha256:[0-9a-f]{64}$", var.image))
    error_message = "image must end with @sha256: and 64 hexadecimal digits."
  }
}

variable "config" {
  description = "Weir's configuration. It listens on 0.0.0.0 at port and at health_port, and drains for less than 10 s. It is stored in Secret Manager, and in Terraform's state: use secrets for passwords."
  type        = string
  sensitive   = true
  validation {
    condition     = length(var.config) <= 65536
    error_message = "config must not be longer than 64 KiB, as a secret may be."
  }
}

variable "secrets" {
  description = "Environment variables for $${NAME} in the configuration, each with the name and the version of a secret in Secret Manager of the project."
  type        = map(object({ secret = string, version = string }))
  default     = {}
  validation {
    condition     = alltrue([for name, one in var.secrets : can(regex("^[A-Za-z_][A-Za-z0-9_]*$", name)) && can(regex("^[1-9][0-9]*$", one.version))])
    error_message = "secrets must map names of variables to secrets with a version that is a number, not latest."
  }
}

variable "public" {
  description = "Whether everybody may call the service. false: callers need an identity token of Google Cloud with the role roles/run.invoker."
  type        = bool
  default     = false
}

variable "ingress" {
  description = "From where requests are taken: all, internal, or internal and Google's load balancers."
  type        = string
  default     = "INGRESS_TRAFFIC_ALL"
  validation {
    condition     = contains(["INGRESS_TRAFFIC_ALL", "INGRESS_TRAFFIC_INTERNAL_ONLY", "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER"], var.ingress)
    error_message = "ingress must be INGRESS_TRAFFIC_ALL, INGRESS_TRAFFIC_INTERNAL_ONLY or INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER."
  }
}

variable "network" {
  description = "Network and subnetwork through which Weir reaches private upstreams. null: none."
  type        = object({ network = string, subnetwork = string })
  default     = null
}

variable "port" {
  description = "Port of Weir's listener for clients. Clients use 443."
  type        = number
  default     = 8080
  validation {
    condition     = var.port > 1024 && var.port < 65536
    error_message = "port must be from 1025 to 65535: the container has no right to open lower ones."
  }
}

variable "health_port" {
  description = "Port of the listener that has a route with builtin healthz at /healthz. Only the probes reach it."
  type        = number
  default     = 8081
  validation {
    condition     = var.health_port > 1024 && var.health_port < 65536 && var.health_port != var.port
    error_message = "health_port must be from 1025 to 65535, and another one than port."
  }
}

variable "http2" {
  description = "Whether Cloud Run speaks HTTP/2 to Weir, as streams of gRPC and bodies above 32 MiB need; WebSocket does not work then. The listener needs http2: prior_knowledge."
  type        = bool
  default     = false
}

variable "timeout" {
  description = "Seconds that a request, a stream or a WebSocket may take."
  type        = number
  default     = 300
  validation {
    condition     = var.timeout >= 1 && var.timeout <= 3600
    error_message = "timeout must be from 1 to 3600 seconds."
  }
}

variable "cpu" {
  description = "CPU cores of an instance."
  type        = number
  default     = 1
  validation {
    condition     = contains([1, 2, 4, 8], var.cpu)
    error_message = "cpu must be 1, 2, 4 or 8."
  }
}

variable "memory" {
  description = "Memory of an instance."
  type        = string
  default     = "1Gi"
  validation {
    condition     = can(regex("^[1-9][0-9]*[MG]i$", var.memory))
    error_message = "memory must be a number with Mi or Gi."
  }
}

variable "replicas" {
  description = "Lowest and highest number of instances."
  type        = object({ min = number, max = number })
  default     = { min = 2, max = 10 }
  validation {
    condition     = var.replicas.min >= 1 && var.replicas.max >= var.replicas.min
    error_message = "replicas.min must be at least 1, because limits and caches in memory end with the last instance, and replicas.max not lower."
  }
}

variable "concurrent_requests" {
  description = "Requests in flight that an instance takes at most."
  type        = number
  default     = 500
  validation {
    condition     = var.concurrent_requests >= 1 && var.concurrent_requests <= 1000
    error_message = "concurrent_requests must be from 1 to 1000."
  }
}

variable "deletion_protection" {
  description = "Whether `destroy` is refused."
  type        = bool
  default     = true
}
