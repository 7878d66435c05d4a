variable "name" {
  description = "Name of the app and prefix of its resources."
  type        = string
  default     = "weir"
  validation {
    condition     = can(regex("^[a-z]([-a-z0-9]{0,30}[a-z0-9])?$", var.name)) && !strcontains(var.name, "--")
    error_message = "name must have 1 to 32 lower-case letters, digits and single hyphens, begin with a letter and not end with a hyphen."
  }
}

variable "location" {
  description = "Region, such as westeurope. With subnet_id it must have availability zones."
  type        = string
}

variable "image" {
  description = "Image of Weir by digest, such as example.azurecr.io/weir@sha256:..."
  type        = string
  validation {
    condition     = can(regex("^[^/@]+/[^@]+@sha256:[0-9a-f]{64}$", var.image))
    error_message = "image must name its registry and end with @sha256: and 64 hexadecimal digits."
  }
}

variable "registry_id" {
  description = "Resource identifier of the Azure Container Registry that has the image. null: the registry needs no login."
  type        = string
  default     = null
}

variable "config" {
  description = "Weir's configuration. It listens on 0.0.0.0 at port and at health_port. It is stored as a secret of the app, and in Terraform's state: use secrets for passwords."
  type        = string
  sensitive   = true
}

variable "secrets" {
  description = "Environment variables for $${NAME} in the configuration, each with the identifier of a secret in key_vault_id, such as https://example.vault.azure.net/secrets/redis-url."
  type        = map(string)
  default     = {}
  validation {
    condition     = alltrue([for name, id in var.secrets : can(regex("^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$", name)) && startswith(id, "https://")])
    error_message = "secrets must map names such as REDIS_URL to identifiers that begin with https://."
  }
}

variable "key_vault_id" {
  description = "Resource identifier of the Key Vault with the secrets. It uses Azure roles for access."
  type        = string
  default     = null
  validation {
    condition     = var.key_vault_id != null || length(var.secrets) == 0
    error_message = "secrets need key_vault_id."
  }
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
  description = "Whether the ingress speaks HTTP/2 to Weir, as gRPC needs. The listener then needs http2: prior_knowledge."
  type        = bool
  default     = false
}

variable "cpu" {
  description = "CPU cores of a replica, in steps of 0.25. The memory is 2 GiB for each core."
  type        = number
  default     = 1
  validation {
    condition     = contains([0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2], var.cpu)
    error_message = "cpu must be from 0.25 to 2, in steps of 0.25."
  }
}

variable "replicas" {
  description = "Lowest and highest number of replicas."
  type        = object({ min = number, max = number })
  default     = { min = 2, max = 10 }
  validation {
    condition     = var.replicas.min >= 2 && var.replicas.max >= var.replicas.min
    error_message = "replicas.min must be at least 2, so that one can be replaced while the other serves, and replicas.max not lower."
  }
}

variable "concurrent_requests" {
  description = "Requests in flight of a replica above which another one is started."
  type        = number
  default     = 200
  validation {
    condition     = var.concurrent_requests >= 1
    error_message = "concurrent_requests must be at least 1."
  }
}

variable "subnet_id" {
  description = "Subnet of at least /27, delegated to Microsoft.App/environments, through which Weir reaches private upstreams. The replicas are then in several zones. null: no network of yours."
  type        = string
  default     = null
}

variable "internal" {
  description = "Whether only networks that reach the subnet may connect, instead of the internet."
  type        = bool
  default     = false
  validation {
    condition     = !var.internal || var.subnet_id != null
    error_message = "internal needs subnet_id."
  }
}

variable "client_cidrs" {
  description = "IPv4 networks that may connect."
  type        = list(string)
  default     = ["0.0.0.0/0"]
  validation {
    condition     = length(var.client_cidrs) > 0 && alltrue([for network in var.client_cidrs : can(cidrnetmask(network))])
    error_message = "client_cidrs must have at least one IPv4 network such as 203.0.113.0/24."
  }
}

variable "log_days" {
  description = "Days that logs are kept."
  type        = number
  default     = 30
  validation {
    condition     = var.log_days >= 30 && var.log_days <= 730
    error_message = "log_days must be from 30 to 730."
  }
}
